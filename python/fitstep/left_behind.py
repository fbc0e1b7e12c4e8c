"""What a step finds and leaves in Python: optimizer state, gradients, attributes, results."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_unflatten

from .errors import GuardError, StepFailed
from .session import Session
from .state.optimizers import Replacement
from .state.snapshot import NumberChange, Snapshot
from .variants import Variant


def bring_back(replaced: Replacement) -> None:
    """State that was replaced by tensors alike (load_state_dict): copied into its home."""
    with torch.no_grad():
        replaced.old.copy_(replaced.new)
    replaced.container[replaced.key] = replaced.old


def take_in_state(session: Session, variants: list[Variant]) -> bool:
    """Takes home optimizer state that a first step would have made and load_state_dict has brought.
    Returns whether there was any. Raises GuardError for state of another form."""
    taken = False
    for variant in variants:
        for state in variant.recording.awaited:
            home = session.homes.get(state.name)
            if home is None or home.tensor is not None:
                continue
            tensor = state.optimizer.state.get(state.parameter, {}).get(state.key)
            if not isinstance(tensor, torch.Tensor):
                continue
            if (tensor.shape, tensor.stride(), tensor.dtype) != (
                state.fake.shape,
                state.fake.stride(),
                state.fake.dtype,
            ):
                raise GuardError(
                    state.name,
                    (state.fake.shape, state.fake.dtype),
                    (tensor.shape, tensor.dtype),
                    todo="load optimizer state of the same form, or compile the step again",
                )
            session.bring_back(home, tensor)
            taken = True
    return taken


def leave_state(
    session: Session, variant: Variant, outputs: list[torch.Tensor], flags: list[NumberChange]
) -> bool:
    """What the step function would have left in Python. Returns whether objects were bound anew
    that guards know."""
    recording = variant.recording
    made: dict[int, torch.Tensor] = {}
    for name, kind, fake in recording.fresh:
        home = session.homes[name]
        tensor = home.tensor
        if tensor is None or not session.is_home(tensor, home):
            tensor = session.make_tensor(home, fake)
        made[id(fake)] = tensor
        if kind == "gradient":
            recording.grad_owners[name].grad = tensor
    if recording.rebindings:
        for fake, index in recording.given:
            made[id(fake)] = outputs[index]
        for rebinding in recording.rebindings:
            optimizer = recording.states.get(id(rebinding))
            if optimizer is not None:
                rebinding.container = optimizer.state  # load_state_dict makes another dict.
        variant.swap.apply(recording.rebindings, _Made(made))
    if not variant.reads_grads:
        for real in recording.grads:
            real.grad = None
    for real in recording.cleared:
        real.grad = None
    if flags:
        Snapshot.apply(flags)
    if variant.reads_grads and not (recording.fresh or recording.rebindings):
        for guards in session.guards:
            guards.accept_grads()
    return bool(recording.fresh or recording.rebindings)


class _Made:
    """The real tensors by fake; None for a fake that stands for one from before the step."""

    def __init__(self, made: dict[int, torch.Tensor]) -> None:
        self._made = made

    def __call__(self, fake: torch.Tensor) -> torch.Tensor | None:
        return self._made.get(id(fake))


def make_results(variant: Variant, outputs: list[torch.Tensor]) -> Any:
    """What the step function returned."""
    leaves = []
    for result in variant.recording.results:
        if result.index < 0:
            leaves.append(result.constant)
        elif result.as_number:
            leaves.append(outputs[result.index].item())
        else:
            leaves.append(outputs[result.index])
    return tree_unflatten(leaves, variant.recording.spec)


def patch(variant: Variant, patches: Any) -> None:
    """Writes an optimizer's numbers of this run into the program."""
    assert variant.planned is not None
    core = variant.planned.variant
    for patch in patches.numbers:
        core.set_number(patch.op, patch.number, patch.value)
    for patch in patches.literals:
        literal = variant.step.literal(patch.storage)
        flat = literal.reshape(-1).view(torch.uint8)
        flat.copy_(torch.frombuffer(bytearray(patch.content), dtype=torch.uint8))


def step_failed(variant: Variant, message: str, written: list[str]) -> StepFailed:
    """The error for a step that stopped half-way, by when it may have written what is named."""
    homes = [bound.name for bound in variant.written() if bound.name in written]
    if not written:
        todo = "nothing was changed: parameters, buffers and optimizer state are as before the step"
    elif not homes:
        todo = "what the caller has given it may be half new: give it anew"
    else:
        grads = any(name.endswith(".grad") for name in homes)
        todo = "load a checkpoint into the model and the optimizer"
        todo += f"{', and zero_grad(),' if grads else ''} before going on"
    return StepFailed(message, unusable=written, todo=todo)
