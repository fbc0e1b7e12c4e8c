"""discover(): everything that a step function can reach, sorted and named."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from fitstep.state.nodes import Above, Node, Owner, Place, Reach, Role
from fitstep.state.walk import SCHEDULERS, Walk

_RANK: tuple[Role, ...] = ("parameter", "buffer", "optimizer_state", "grad", "group", "attribute")


def discover(
    function: Callable[..., Any],
    *,
    model: torch.nn.Module | Iterable[torch.nn.Module] | None = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    arguments: Iterable[object] = (),
) -> Reach:
    """Walks everything reachable from a step function, and from `model` and `optimizer` if given.

    Closure cells, globals that the function and the functions it names mention, defaults, bound
    objects, attributes and slots of modules, optimizers, schedulers and user objects, classes,
    lists, tuples, dicts, sets and hooks. Runs no user code and changes nothing.

    Raises CaptureError when the reach is unreasonably large.
    """
    reach = Reach(function)
    walk = Walk(reach)
    for path, given in (("model", model), ("optimizer", optimizer)):
        roots = _several(given)
        for i, root in enumerate(roots):
            walk.add_root(root, path if len(roots) == 1 else f"{path}[{i}]")
    walk.add_root(function, "")
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
    """Gradients that are there already are places too: `parameter.grad`."""
    for place in reach.unique():
        tensor = place.tensor
        grad = tensor.grad if tensor.is_leaf else None
        if grad is not None:
            above = Above(place.above.node, place.above.key, place.above.rest)
            reach.tensors.append(Place("", tensor, "grad", grad, "grad", above))


def _assign_roles(reach: Reach) -> None:
    """Roles follow from who owns a container, not from the path on which it was found first."""
    role_of: dict[int, Role] = {}
    owner_of: dict[int, Owner] = {}
    for node in reach.nodes:
        owner = node.owner
        if isinstance(owner, torch.nn.Module):
            role_of[id(owner._parameters)] = "parameter"
            role_of[id(owner._buffers)] = "buffer"
        if isinstance(owner, torch.optim.Optimizer):
            owner_of[id(owner.__dict__)] = "optimizer"
            owner_of[id(owner.defaults)] = "optimizer"
            for state in (owner.state, *owner.state.values()):
                role_of[id(state)] = "optimizer_state"
                owner_of[id(state)] = "optimizer"
            for group in (owner.param_groups, *owner.param_groups):
                role_of[id(group)] = "group"
                owner_of[id(group)] = "optimizer"
    for node in reach.nodes:
        node.role = role_of.get(id(node.container), node.role)
        node.owned_by = owner_of.get(id(node.container), _owner(node))
    for place in reach.tensors:
        if place.role != "grad":
            node = place.above.node
            if place.key is place.tensor:
                place.role = "dict"  # A key: the parameter in front of its optimizer state.
            elif place.container is node.container:
                place.role = node.role
            else:
                place.role = _inner_role(node.role)


def _owner(node: Node) -> Owner:
    """Lists and dicts belong to whom the object belongs on which they were found first."""
    at: Node | None = node
    while at is not None:
        if isinstance(at.owner, torch.nn.Module):
            return "module"
        if isinstance(at.owner, SCHEDULERS):
            return "scheduler"
        if isinstance(at.owner, torch.optim.Optimizer):
            return "optimizer"
        at = at.above.node if at.form.plain and at.above else None
    return "user"


def _inner_role(role: Role) -> Role:
    return role if role in ("optimizer_state", "group") else "tuple"


def _assign_names(reach: Reach, walk: Walk) -> None:
    names = reach.names

    def rank(place: Place) -> float:
        if place.role == "list" and place.above.node.owned_by == "optimizer":
            return _RANK.index("buffer") + 0.5  # param_groups[0]['params'][3]
        if place.key is place.tensor:
            return len(_RANK) + 1
        return _RANK.index(place.role) if place.role in _RANK else len(_RANK)

    # Parameters and buffers first: their paths have no tensor as a key in them.
    for place in sorted(reach.tensors, key=rank):
        if place.role == "grad":
            place.path = names.get(id(place.container), place.above.path(names)) + ".grad"
        else:
            place.path = place.above.path(names)
        names.setdefault(id(place.tensor), place.path)
    for found, value, above, root in walk.found:
        found.append((above.path(names) if above else root, value))
    reach.all_modules = [
        (above.path(names) if above else root, module) for module, above, root in walk.module_paths
    ]
    children = {id(c) for _, module in reach.all_modules for c in module._modules.values()}
    reach.modules = [(path, m) for path, m in reach.all_modules if id(m) not in children]
