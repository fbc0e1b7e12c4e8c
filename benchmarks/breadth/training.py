"""Trains one subject in this process and says what was left behind, as a hash for every tensor."""

import copy
import hashlib
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from benchmarks.breadth.subject import Subject
from benchmarks.breadth.subjects import build

Hashes = dict[str, str]


def train_plain(name: str) -> dict[str, Any]:
    """Twice, from two copies: does plain PyTorch repeat itself?"""
    subject = _built(name)
    twin = Subject(copy.deepcopy(subject.model), copy.deepcopy(subject.batches), subject.loss)
    first, again = (_train(each, lambda step, _: step) for each in (subject, twin))
    return {"hashes": first, "repeats": first == again}


def train_fitstep(name: str) -> dict[str, Any]:
    """Once, on a model that nothing has run before; also after `close`."""
    import fitstep

    subject = _built(name)
    compiled: list[fitstep.Step] = []
    seconds = 0.0

    def compile_step(step: Callable[..., Tensor], example: Any) -> fitstep.Step:
        nonlocal seconds
        start = time.perf_counter()
        compiled.append(fitstep.compile(step, example=example, budget=None, progress=False))
        seconds = time.perf_counter() - start
        return compiled[-1]

    try:
        hashes = _train(subject, compile_step)
        before = _hashes_of(subject.model)
        compiled[0].close()
        kept = before == _hashes_of(subject.model)
    except fitstep.CaptureError as error:
        return {"refused": str(error).splitlines()[0], "compile_s": seconds}
    return {"hashes": hashes, "kept": kept, "compile_s": seconds}


def _built(name: str) -> Subject:
    build(name)  # Imports what the subject needs; an import may draw numbers.
    _seed()
    return build(name)


def _seed() -> None:
    torch.manual_seed(0)
    random.seed(0)
    numpy.random.seed(0)  # noqa: NPY002 - the generator that libraries draw from.


def _train(subject: Subject, prepare: Callable[[Callable[..., Tensor], Any], Any]) -> Hashes:
    """A step per batch, in the form in which most people write it."""
    model, loss_of = subject.model, subject.loss
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3)

    def step(*batch: Any) -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, *batch)
        loss.backward()
        optimizer.step()
        return loss

    _seed()
    run = prepare(step, subject.batches[0])
    losses = [run(*batch) for batch in subject.batches]
    hashes = {f"loss {index}": _hash(loss) for index, loss in enumerate(losses)}
    hashes |= _hashes_of(model)
    hashes |= dict(_entries("optimizer", optimizer.state_dict()["state"]))
    hashes |= dict(_entries("batches", dict(enumerate(subject.batches))))
    hashes["torch's generator"] = _hash(torch.get_rng_state())
    hashes["Python's generator"] = hashlib.sha256(repr(random.getstate()).encode()).hexdigest()
    return hashes


def _hashes_of(model: nn.Module) -> Hashes:
    """The state dict, and the buffers that are not in it."""
    entries = dict(_entries("model", model.state_dict(keep_vars=True)))
    return entries | dict(_entries("model", dict(model.named_buffers())))


def _entries(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entries(f"{name}/{key}", item)
    elif isinstance(value, list | tuple):
        yield from _entries(name, dict(enumerate(value)))
    elif isinstance(value, Tensor):
        yield name, _hash(value)
    else:
        yield name, repr(value)


def _hash(tensor: Tensor) -> str:
    """Of dtype, shape and the elements' bytes."""
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    digest = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    digest.update(flat.numpy().data)
    return digest.hexdigest()
