"""What recordings use of the state around them: gradients, optimizers, closed-over tensors."""

from __future__ import annotations

import torch

from .errors import CaptureError
from .recording import PERSISTENT, Recording
from .session import Session
from .shadow import OptimizerCall
from .state import Rebinding


def reads_grads(recording: Recording) -> bool:
    read = set(recording.recorder.read_storages())
    return any(b.role == "grad" and b.storage in read for b in recording.bound)


def uses(recordings: list[Recording], optimizer: torch.optim.Optimizer) -> bool:
    """Whether a recording steps an optimizer, or computes with its state."""
    tensors = {id(value) for entry in optimizer.state.values() for value in entry.values()}
    for recording in recordings:
        if any(isinstance(c, OptimizerCall) and c.optimizer is optimizer for c in recording.calls):
            return True
        read = set(recording.recorder.read_storages())
        if any(id(b.real) in tensors and b.storage in read for b in recording.bound):
            return True
    return False


def leaves_grads(recording: Recording) -> bool:
    """Whether gradients are there at its end that no optimizer of the step has used: they are for
    a later call, or for code outside the step."""
    used: set[int] = set()
    for call in recording.calls:
        if isinstance(call, OptimizerCall):
            parameters = [p for group in call.optimizer.param_groups for p in group["params"]]
            used |= {id(p) for p, has_grad in zip(parameters, call.mask, strict=True) if has_grad}
    return any(id(owner) not in used for owner in recording.grads)


def check_given(recordings: list[Recording], final: list[Rebinding]) -> None:
    """Raises CaptureError if the step reads a tensor that an earlier call has bound in Python: each
    run gives the user a tensor of his own, and the program would read the first for ever.

    `final` is what is bound anew after the last of the recordings, since before the first."""
    last = recordings[-1]
    read = set(last.recorder.read_storages())
    given = {id(fake): r for r in recordings for fake, _ in r.given}
    bound = {one.storage for one in last.bound}
    fresh = {id(fake) for r in recordings for _, _, fake in r.fresh}
    for rebinding in final:
        if rebinding.role in PERSISTENT:
            continue
        for path, fake in rebinding.tensors:
            is_told = id(fake) in given or id(fake) in fresh
            if not is_told and last.recorder.storage_of(fake) not in bound:
                raise _not_in_place(path)
    for earlier in recordings[:-1]:
        for rebinding in earlier.rebindings:
            for path, fake in rebinding.tensors:
                if given.get(id(fake)) is earlier and last.recorder.storage_of(fake) in read:
                    raise _not_in_place(path)


def _not_in_place(path: str) -> CaptureError:
    return CaptureError(
        f"the step binds {path} to a new tensor each time and may read the one of the time before",
        todo="keep one tensor and update it in place, as with total.add_(loss.detach()) or "
        "h.copy_(new.detach())",
    )


def written_or_at_home(recordings: list[Recording], session: Session) -> set[str]:
    """Names of closed-over tensors that some recording writes, or that another compiled function
    has brought home."""
    return {
        bound.name
        for recording in recordings
        for bound in recording.bound
        if bound.storage in recording.written
        or (bound.real is not None and session.home_of(bound.real) is not None)
    }


def settle(recording: Recording, written: set[str], in_use: bool) -> None:
    """Decides what is at home: gradients if they are in use, and `written` tensors."""
    recorder = recording.recorder
    for path, kind, fake in recording.fresh:
        if kind != "gradient" or in_use:
            recorder.adopt(fake, path, kind)
    for bound in recording.bound:
        if bound.role == "grad" and not in_use:
            recorder.forget(bound.storage)
        elif not bound.is_home and bound.name in written:
            bound.role = "buffer"
            recorder.make_persistent(bound.storage, "buffer")
    if not in_use:
        recording.fresh = [f for f in recording.fresh if f[1] != "gradient"]
        recording.bound = [b for b in recording.bound if b.role != "grad"]
