"""step.check(): runs the same steps by fitstep and by plain PyTorch, and compares all bits.

    save everything ─> k compiled steps ─> hash ─> put back ─> k plain steps ─> hash ─> put back

Both run on the user's own model and optimizer, one after the other. Saved and put back are tensor
bytes, Python values and generator states.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_flatten

from .. import _core
from ..base.describe import counted
from ..errors import FitstepError
from ..follow.recorded import tensors_in
from ..follow.undo import Undo

if TYPE_CHECKING:
    from .programs import Programs


@dataclass(frozen=True)
class CheckResult:
    """What `step.check()` compared. All bits were equal. `print` it."""

    steps: int
    tensors: int  # Parameters, buffers, optimizer state and others, counted after each step.
    unrepeatable: tuple[str, ...]  # Operators whose bits differ from run to run in plain PyTorch.

    def __str__(self) -> str:
        tensors = counted(self.tensors, "tensor")
        text = f"{counted(self.steps, 'step')}: losses and {tensors} equal plain PyTorch's bits"
        if self.unrepeatable:
            names = ", ".join(self.unrepeatable)
            text += f"; operators that differ from run to run in plain PyTorch: {names}"
        return text


def run_check(
    step: Callable[..., Any], programs: Programs, steps: int, args: Any, kwargs: dict[str, Any]
) -> CheckResult:
    """Raises FitstepError with the first tensor or result that differs."""
    if steps < 1:
        raise FitstepError(f"check(steps={steps}) compares nothing", todo="pass steps=1 or more")
    args = args if isinstance(args, tuple) else (args,)
    _check_memory(programs)
    with _kept(programs, args, kwargs) as again:
        ours = dict(_train(partial(step, *args, **kwargs), steps, programs))
        again()
        plain_step = partial(programs.maker.function, *args, **kwargs)
        plain = dict(_train(plain_step, steps, programs))
    # A compiled step drops gradients; the updated parameters show whether they were equal.
    for what in [*plain, *(what for what in ours if what not in plain)]:
        if plain.get(what) != ours.get(what) and not (what not in ours and ".grad after" in what):
            raise _difference(what, programs.unrepeatable)
    tensors = sum(" after step " in what for what in ours)
    return CheckResult(steps, tensors, tuple(programs.unrepeatable))


def _difference(what: str, unrepeatable: list[str]) -> FitstepError:
    if unrepeatable:
        return FitstepError(
            f"{what} differs from plain PyTorch; so may two runs of plain PyTorch, because these "
            f"operators do not repeat their own bits: {', '.join(unrepeatable)}",
            todo="replace these operators, or call torch.use_deterministic_algorithms(True)",
        )
    return FitstepError(
        f"{what} differs from plain PyTorch",
        todo="please report the model; until then train with plain PyTorch",
    )


def _check_memory(programs: Programs) -> None:
    available = _available_bytes()
    if available is not None and programs.plain_peak_bytes > available:
        needed = _core.format_bytes(programs.plain_peak_bytes)
        raise FitstepError(
            f"check() runs plain PyTorch, too, which needs {needed} for this step; "
            f"{_core.format_bytes(available)} are available",
            todo="call step.check(example=...) with a smaller batch",
        )


def _available_bytes() -> int | None:
    with contextlib.suppress(OSError), open("/proc/meminfo", encoding="ascii") as info:
        for line in info:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


@contextlib.contextmanager
def _kept(
    programs: Programs, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[Callable[[], None]]:
    """Yields a function that puts all state back; calls this function at the end, too."""
    reach, given = programs.maker.find_reach(), tensors_in(args, kwargs)
    undo = Undo(reach, given)
    tensors = [*(place.tensor for place in reach.unique()), *given]
    saved = [(tensor, tensor.detach().clone()) for tensor in tensors]

    def put_back() -> None:
        undo.put_back()
        with torch.no_grad():
            for tensor, content in saved:
                tensor.detach().copy_(content)

    try:
        yield put_back
    finally:
        put_back()


def _train(function: Callable[[], Any], steps: int, programs: Programs) -> list[tuple[str, str]]:
    """(name, hash of its bytes) of all results, and of all tensors after each step."""
    found = []
    for i in range(steps):
        result = function()
        for k, leaf in enumerate(tree_flatten(result)[0]):
            found.append((f"what step {i + 1} returned ({k})", _digest(leaf)))
        state = torch.default_generator.get_state()
        found.append((f"the random number generator after step {i + 1}", _digest(state)))
        found += sorted((f"{path} after step {i + 1}", _digest(t)) for path, t in _left(programs))
    return found


def _left(programs: Programs) -> list[tuple[str, torch.Tensor]]:
    """(name, tensor) of all that the step can reach, without gradients that it drops."""
    reach = programs.maker.find_reach()
    session = programs.session
    dropped = set() if session.grads_in_use else {id(p) for p, _ in session.ghosts.values()}
    return [
        (reach.name(place.tensor), place.tensor)
        for place in reach.unique()
        if not (place.leaf is not None and id(place.leaf) in dropped)
    ]


def _digest(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    flat = value.detach().contiguous().reshape(-1).cpu()
    content = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return f"{tuple(value.shape)} {value.dtype} {hashlib.sha256(content).hexdigest()}"
