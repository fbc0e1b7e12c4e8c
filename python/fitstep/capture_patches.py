"""What is patched in torch for the time of a recording, because no operator call would show it.

torch.get_rng_state / set_rng_state   become ops of the program (torch.utils.checkpoint)
torch.manual_seed, torch.seed         are refused, and states of a GPU's generator with them
Tensor.data = ...                     is refused
Tensor.item, float(t), int(t)         a number that is only returned is read after the step
fitstep's own compiled steps          are refused
_foreach_supported_types              know fakes, so that on a GPU optimizers do as without capture
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .errors import CaptureError, user_location

if TYPE_CHECKING:
    from .capture_mode import RecordingMode

_STATE_BYTES = 5056
_WITH_FOREACH = ("torch.optim.optimizer", "torch.utils._foreach_utils")


class LaterNumber(float):
    """Stands for the value of a tensor that is known only after the step. It may be returned;
    everything else that one can do with a number raises CaptureError."""

    tensor: torch.Tensor

    def _refuse(self, *_args: Any) -> Any:
        raise CaptureError(
            "the step computes with the value of a tensor (.item()) while it is captured",
            where=user_location(),
            todo="compute with the tensor itself, or return it and read it after the step",
        )


for _name in (
    *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow", "rpow", "neg"),
    *("floordiv", "mod", "divmod", "abs", "lt", "le", "gt", "ge", "eq", "ne", "bool", "int"),
    *("float", "round", "format", "str", "repr", "index", "hash"),
):
    setattr(LaterNumber, f"__{_name}__", LaterNumber._refuse)


class Numbers:
    """The numbers that the recording was asked for."""

    def __init__(self) -> None:
        self.all: list[LaterNumber] = []

    def later(self, tensor: torch.Tensor) -> LaterNumber:
        number = LaterNumber(0.0)
        number.tensor = tensor
        self.all.append(number)
        return number

    def tensor_of(self, value: Any) -> torch.Tensor | None:
        return value.tensor if isinstance(value, LaterNumber) else None


def _foreach_patches() -> Iterator[tuple[Any, str, Any]]:
    for module in map(importlib.import_module, _WITH_FOREACH):
        known = module._foreach_supported_types
        yield module, "_foreach_supported_types", [*known, FakeTensor]


def _generator_patches() -> Iterator[tuple[Any, str, Any]]:
    def refuse_seed(*_args: Any, **_kwargs: Any) -> Any:
        raise CaptureError(
            "the step seeds a random number generator",
            where=user_location(),
            todo="call torch.manual_seed before the step; inside it every step would draw the same",
        )

    def refuse_state(*_args: Any, **_kwargs: Any) -> Any:
        raise CaptureError(
            "the step reads or sets the state of a GPU's random number generator",
            where=user_location(),
            todo="torch.utils.checkpoint does so: leave it out, fitstep recomputes by itself",
        )

    for module in (torch, torch.random, torch.cuda, torch.cuda.random):
        yield module, "manual_seed", refuse_seed
        yield module, "seed", refuse_seed
    for module in (torch.cuda, torch.cuda.random):
        yield module, "manual_seed_all", refuse_seed
        yield module, "seed_all", refuse_seed
        yield module, "get_rng_state", refuse_state
        yield module, "set_rng_state", refuse_state


@contextlib.contextmanager
def patched(mode: RecordingMode) -> Iterator[Numbers]:
    """Patches torch, and puts everything back whatever happens."""
    from .step import Step

    numbers = Numbers()
    original_item = torch.Tensor.item

    def get_rng_state() -> torch.Tensor:
        state = torch.empty(_STATE_BYTES, dtype=torch.uint8)
        mode.replace_last(torch.ops.fitstep.generator_state.default, (), {}, state)
        return state

    def set_rng_state(new_state: torch.Tensor) -> None:
        mode.record(torch.ops.fitstep.set_generator_state.default, (new_state,), {}, None)

    def item(tensor: torch.Tensor) -> Any:
        is_known = getattr(tensor, "constant", None) is not None or not mode.is_fake(tensor)
        return original_item(tensor) if is_known or tensor.numel() != 1 else numbers.later(tensor)

    def refuse_data(tensor: torch.Tensor, _value: torch.Tensor) -> None:
        raise CaptureError(
            f"the step gives a tensor of shape {tuple(tensor.shape)} another storage (`.data =`)",
            where=user_location(),
            todo="write into the tensor in place, under torch.no_grad(): p.copy_(new)",
        )

    thread = threading.get_ident()
    original_call = Step.__call__

    def refuse_compiled(step: Step, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != thread:
            return original_call(step, *args, **kwargs)
        raise CaptureError(
            "the step function is a step that is compiled already, or calls one",
            where=user_location(),
            todo="compile the plain function, step.function, and let others call that one",
        )

    data = property(vars(torch._C.TensorBase)["data"].__get__, refuse_data)
    patches: list[tuple[Any, str, Any]] = [
        *_foreach_patches(),
        *_generator_patches(),
        (torch.Tensor, "data", data),
        (torch, "get_rng_state", get_rng_state),
        (torch, "set_rng_state", set_rng_state),
        (torch.random, "get_rng_state", get_rng_state),
        (torch.random, "set_rng_state", set_rng_state),
        (torch.Tensor, "item", item),
        (Step, "__call__", refuse_compiled),
    ]
    with contextlib.ExitStack() as stack:
        for owner, name, replacement in patches:
            had = name in vars(owner)
            original = getattr(owner, name)
            if had:
                stack.callback(setattr, owner, name, original)
            else:
                stack.callback(delattr, owner, name)
            setattr(owner, name, replacement)
        yield numbers
