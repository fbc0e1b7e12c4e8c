"""step.check(): the same steps by plain PyTorch and by fitstep, compared bit by bit.

    save everything ─> k plain steps ─> hash ─> put back ─> k compiled steps ─> hash ─> put back

Both run on the user's own objects, one after the other, so no copy of a model has to be made right;
what is saved are bytes, Python numbers and generator states.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_flatten

from . import _core
from .errors import FitstepError
from .state.snapshot import Snapshot

if TYPE_CHECKING:
    from .step import Step


@dataclass(frozen=True)
class CheckResult:
    """What `step.check()` compared; all of it was equal."""

    steps: int
    tensors: int  # Parameters, buffers, optimizer state and other tensors within reach.
    unrepeatable: tuple[str, ...]  # Operators that do not repeat their own bits, if any.

    def __str__(self) -> str:
        text = f"{self.steps} steps: losses and {self.tensors} tensors equal plain PyTorch's bits"
        if self.unrepeatable:
            text += f"; not repeatable by themselves: {', '.join(self.unrepeatable)}"
        return text


def run_check(step: Step, steps: int, example: Any) -> CheckResult:
    """Raises FitstepError with the first thing that differs."""
    if steps < 1:
        raise FitstepError(f"check(steps={steps}) compares nothing", todo="give steps >= 1")
    args = step.example if example is None else example
    args = args if isinstance(args, tuple) else (args,)
    _check_memory(step)
    function = step.function
    with _kept(step) as again:
        plain = _train(function, args, steps, step)
        again()
        ours = _train(step, args, steps, step)
    for (what, a), (_, b) in zip(plain, ours, strict=True):
        if a != b:
            raise _difference(what, step.unrepeatable)
    tensors = sum(not what.startswith("what step") for what, _ in plain)
    return CheckResult(steps, tensors, tuple(step.unrepeatable))


def _difference(what: str, unrepeatable: list[str]) -> FitstepError:
    if unrepeatable:
        return FitstepError(
            f"{what} differs from plain PyTorch, as it may from one plain step to the next: these "
            f"operators do not repeat their own bits: {', '.join(unrepeatable)}",
            todo="replace them, or try torch.use_deterministic_algorithms(True)",
        )
    return FitstepError(
        f"{what} differs from plain PyTorch",
        todo="please report the model; until then train with plain PyTorch",
    )


def _check_memory(step: Step) -> None:
    available = _available_bytes()
    if available is not None and step.plain_peak_bytes > available:
        raise FitstepError(
            f"plain PyTorch needs {_core.format_bytes(step.plain_peak_bytes)} for this step and "
            f"{_core.format_bytes(available)} are available, so there is nothing to compare with",
            todo="call check(example=...) with a smaller batch",
        )


def _available_bytes() -> int | None:
    with contextlib.suppress(OSError), open("/proc/meminfo", encoding="ascii") as info:
        for line in info:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


@contextlib.contextmanager
def _kept(step: Step) -> Iterator[Callable[[], None]]:
    """Yields a function that puts everything back, and calls it at the end too."""
    reach = step._find_reach()
    snapshot = Snapshot.take(reach)
    entries = [(node, node.entries()) for node in reach.nodes]
    saved = [(place.tensor, place.tensor.detach().clone()) for place in reach.unique()]
    grads = [(place.tensor, place.tensor.grad) for place in reach.leaves()]
    generator = torch.get_rng_state()

    def put_back() -> None:
        for node, was in entries:
            node.form.restore(node.container, was)
        with torch.no_grad():
            for tensor, content in saved:
                tensor.detach().copy_(content)
        for tensor, grad in grads:
            tensor.grad = grad
        snapshot.restore()
        torch.set_rng_state(generator)
        step._accept_state()

    try:
        yield put_back
    finally:
        put_back()


def _train(
    function: Callable[..., Any], args: tuple[Any, ...], steps: int, step: Step
) -> list[tuple[str, str]]:
    """(what, hash of its bytes) of all that the steps left."""
    found = []
    for i in range(steps):
        result = function(*args)
        for k, leaf in enumerate(tree_flatten(result)[0]):
            found.append((f"what step {i + 1} returned ({k})", _digest(leaf)))
    reach = step._find_reach()
    owned: list[tuple[str, str]] = []
    for place in reach.unique("parameter", "buffer", "optimizer_state", "closure", "list", "dict"):
        owned.append((place.path, _digest(place.tensor)))
    return found + sorted(owned)


def _digest(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    flat = value.detach().contiguous().reshape(-1)
    content = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return f"{tuple(value.shape)} {value.dtype} {hashlib.sha256(content).hexdigest()}"
