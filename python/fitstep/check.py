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
from .recordings import tensors_in
from .undo import Undo

if TYPE_CHECKING:
    from .programs import Programs


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


def run_check(step: Callable[..., Any], programs: Programs, steps: int, args: Any) -> CheckResult:
    """Raises FitstepError with the first thing that differs."""
    if steps < 1:
        raise FitstepError(f"check(steps={steps}) compares nothing", todo="give steps >= 1")
    args = args if isinstance(args, tuple) else (args,)
    _check_memory(programs)
    with _kept(programs, args) as again:
        ours = dict(_train(step, args, steps, programs))
        again()
        plain = dict(_train(programs.maker.function, args, steps, programs))
    # Gradients that no compiled step leaves are compared by what the optimizer makes of them.
    for what in [*plain, *(what for what in ours if what not in plain)]:
        if plain.get(what) != ours.get(what) and not (what not in ours and ".grad after" in what):
            raise _difference(what, programs.unrepeatable)
    tensors = sum(" after step " in what for what in ours)
    return CheckResult(steps, tensors, tuple(programs.unrepeatable))


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


def _check_memory(programs: Programs) -> None:
    available = _available_bytes()
    if available is not None and programs.plain_peak_bytes > available:
        needed = _core.format_bytes(programs.plain_peak_bytes)
        raise FitstepError(
            f"plain PyTorch needs {needed} for this step and "
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
def _kept(programs: Programs, args: tuple[Any, ...]) -> Iterator[Callable[[], None]]:
    """Yields a function that puts everything back, and calls it at the end too."""
    reach, given = programs.maker.find_reach(), tensors_in(args, {})
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


def _train(
    function: Callable[..., Any], args: tuple[Any, ...], steps: int, programs: Programs
) -> list[tuple[str, str]]:
    """(what, hash of its bytes) of all that the steps returned and left."""
    found = []
    for i in range(steps):
        result = function(*args)
        for k, leaf in enumerate(tree_flatten(result)[0]):
            found.append((f"what step {i + 1} returned ({k})", _digest(leaf)))
        state = torch.default_generator.get_state()
        found.append((f"the random number generator after step {i + 1}", _digest(state)))
        found += sorted((f"{path} after step {i + 1}", _digest(t)) for path, t in _left(programs))
    return found


def _left(programs: Programs) -> list[tuple[str, torch.Tensor]]:
    """Every tensor that the step can reach. A gradient that a compiled step drops is in none."""
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
