"""The subject of a compile or a question: the step function, and what it reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils._pytree import keystr, tree_flatten_with_path

from ..base.arguments import runs_later
from ..base.collector import all_objects
from ..errors import CaptureError, user_location
from ..follow.following import current
from ..memory.device import device_of
from ..memory.settings import several
from ..state import Reach, discover
from .step import Step

Models = torch.nn.Module | Iterable[torch.nn.Module] | None
Optimizers = torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None


class Subject:
    """A step function with the models and optimizers that the user names.

    Raises CaptureError for what is no step function, SettingError for a wrong model or optimizer.
    A compiled step stands for its function.
    """

    def __init__(self, function: Any, model: Models, optimizer: Optimizers) -> None:
        self.function: Callable[..., Any] = _checked(function)
        self.models = several("model", model, torch.nn.Module, "a torch.nn.Module")
        self.optimizers = several(
            "optimizer", optimizer, torch.optim.Optimizer, "a torch optimizer"
        )

    def find_reach(self, arguments: Iterable[object] = ()) -> Reach:
        """What the function reaches now."""
        return discover(
            self.function, model=self.models, optimizer=self.optimizers, arguments=arguments
        )

    def look(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Reach, torch.device]:
        """What the function reaches, and the device of a call with these arguments. Raises
        CaptureError inside a compiled step, for several processes, and for several devices."""
        check_outside()
        reach = self.find_reach()
        return reach, device_of(_places(reach, args, kwargs))


def check_outside() -> None:
    """Raises CaptureError inside a compiled step."""
    if current() is not None:
        raise CaptureError(
            "fitstep.compile is called inside a compiled step",
            where=user_location(),
            todo="call fitstep.compile outside the step, while none runs",
        )


def _checked(function: Any) -> Any:
    if isinstance(function, Step):
        return function.function
    if not callable(function):
        raise CaptureError(
            f"function= is a {type(function).__name__}, which cannot be called",
            todo="pass a function that does one whole training step",
        )
    if runs_later(function):
        raise CaptureError(
            "the step function is a coroutine or a generator: a call of it runs nothing yet",
            todo="pass a plain function that does one whole training step and returns its results",
        )
    return function


def _places(
    reach: Reach, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[str, torch.Tensor]]:
    """(name, tensor) of the model, the optimizer and the example. Raises CaptureError for DDP."""
    _check_one_process(reach)
    for place in reach.unique():
        yield reach.name(place.tensor), place.tensor
    for given in (args, kwargs):
        for path, leaf in tree_flatten_with_path(given)[0]:
            if isinstance(leaf, torch.Tensor):
                yield f"the example's tensor {keystr(path)}", leaf


def _check_one_process(reach: Reach) -> None:
    """Raises CaptureError if a module of the step is inside a DistributedDataParallel: a step that
    uses its `.module` would train in each process alone."""
    found = torch.distributed
    if not (found.is_available() and found.is_initialized() and found.get_world_size() > 1):
        return
    inside = {id(module) for _, root in reach.modules for module in root.modules()}
    for one in all_objects():
        is_parallel = issubclass(type(one), torch.nn.parallel.DistributedDataParallel)
        if is_parallel and id(one.module) in inside:
            raise CaptureError(
                "the step's model is inside a DistributedDataParallel, and a compiled step does "
                f"not average gradients over its {found.get_world_size()} processes",
                todo="train with one process: collectives, DistributedDataParallel and FSDP are "
                "not supported yet",
            )
