"""discover(): everything that a step function can reach, with roles and names."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from fitstep.state.nodes import Place, Reach, Role, is_leaf
from fitstep.state.walk import Walk

_RANK: tuple[Role, ...] = ("parameter", "buffer", "optimizer_state", "grad", "group", "attribute")

# Hooks that act on all modules.
_GLOBAL_HOOKS = (
    *("_global_forward_pre_hooks", "_global_forward_hooks"),
    *("_global_backward_pre_hooks", "_global_backward_hooks"),
)


def discover(
    function: Callable[..., Any],
    *,
    model: torch.nn.Module | Iterable[torch.nn.Module] | None = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    arguments: Iterable[object] = (),
) -> Reach:
    """Walks everything that a step function, `model`, `optimizer` and `arguments` reach.

    Follows closure cells, globals that the function or functions named in it use, default
    arguments, bound objects, classes, containers, hooks, and attributes and slots of modules,
    optimizers, schedulers and user objects. Runs no user code and changes nothing.

    Raises CaptureError if more than walk.MAX_NODES objects are in reach.
    """
    reach = Reach(function)
    walk = Walk(reach)
    for path, given in (("model", model), ("optimizer", optimizer)):
        roots = _several(given)
        for i, root in enumerate(roots):
            walk.add_root(root, path if len(roots) == 1 else f"{path}[{i}]")
    walk.add_root(function, "")
    for name in _GLOBAL_HOOKS:
        walk.add_root(getattr(torch.nn.modules.module, name, {}), f"torch.nn.modules.module.{name}")
    for hooks in (_global_optimizer_pre_hooks, _global_optimizer_post_hooks):
        walk.add_root(hooks, "hooks of all optimizers")
    once = [c for c in vars(logging.Logger).values() if isinstance(c, functools._lru_cache_wrapper)]
    walk.add_root(once, "logging.Logger")  # transformers' logger.warning_once()
    for i, argument in enumerate(arguments):
        if not isinstance(argument, torch.Tensor):
            walk.add_root([argument], f"argument {i}")
    _add_grads(reach)
    _assign_roles(reach)
    _assign_names(reach, walk)
    return reach


def _several(given: Any) -> list[Any]:
    if given is None:
        return []
    if isinstance(given, torch.nn.Module | torch.optim.Optimizer):
        return [given]
    return list(given)


def _add_grads(reach: Reach) -> None:
    """Adds places for gradients that exist: `parameter.grad`."""
    for place in reach.unique():
        tensor = place.tensor
        grad = tensor.grad if is_leaf(tensor) else None
        if grad is not None:
            reach.tensors.append(Place(grad, "grad", place.above, tensor))


def _assign_roles(reach: Reach) -> None:
    """Sets roles by the owner of a container, not by the path on which it was found first."""
    role_of: dict[int, Role] = {}
    for node in reach.nodes:
        owner = node.owner
        if node.style != "attribute":  # One node per object: that of its attributes.
            continue
        if isinstance(owner, torch.nn.Module):
            role_of[id(owner._parameters)] = "parameter"
            role_of[id(owner._buffers)] = "buffer"
        if isinstance(owner, torch.optim.Optimizer):
            for state in (owner.state, *owner.state.values()):
                role_of[id(state)] = "optimizer_state"
            for group in (owner.param_groups, *owner.param_groups):
                role_of[id(group)] = "group"
    for node in reach.nodes:
        node.role = role_of.get(id(node.container), node.role)
    for place in reach.tensors:
        if place.leaf is None:
            is_key = place.above.key is place.tensor  # As in optimizer.state[parameter].
            place.role = "other" if is_key else place.above.node.role


def _rank(place: Place) -> float:
    """Of several paths to a tensor, the path with the lowest rank names it."""
    above = place.above
    if above.key is place.tensor:
        return len(_RANK) + 1
    of = above.node.above
    if of is not None and of.node.role == "group":
        return _RANK.index("buffer") + 0.5  # param_groups[0]['params'][3]
    is_within = place.role == "attribute" and above.rest != ""
    return _RANK.index(place.role) if place.role in _RANK and not is_within else len(_RANK)


def _assign_names(reach: Reach, walk: Walk) -> None:
    names = reach.names
    # Parameters and buffers come first: no tensor is a key in their paths.
    for place in sorted(reach.tensors, key=_rank):
        if id(place.tensor) in names:
            continue
        if place.leaf is not None:
            path = names.get(id(place.leaf), place.above.path(names)) + ".grad"
        else:
            path = place.above.path(names)
        names[id(place.tensor)] = path
    for found, value, above, root in walk.found:
        found.append((above.path(names) if above else root, value))
    children = {id(c) for module, _, _ in walk.modules for c in module._modules.values()}
    reach.modules = [
        (above.path(names) if above else root, module)
        for module, above, root in walk.modules
        if id(module) not in children
    ]
