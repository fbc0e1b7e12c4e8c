"""What recordings use of the state around them: gradients, optimizers, closed-over tensors."""

from __future__ import annotations

import torch

from .recording import Recording
from .session import Session
from .shadow import OptimizerCall


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
