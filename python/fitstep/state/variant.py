"""Which variant is the right one: facts that choose between programs instead of being errors.

    inputs        shapes, dtypes, strides, devices, and which inputs share a storage
    training      the `training` flag of every module
    requires_grad of every parameter; grads: which parameters have a `.grad`
    state         how many entries each optimizer holds for each parameter
    ambient       grad mode, autocast, threads, determinism, oneDNN, default dtype, ...

A key is a tuple of tuples: hashable, comparable, and cheap enough to be made before every step.
"""

from __future__ import annotations

import operator
from itertools import repeat
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_flatten

from fitstep.state.nodes import Reach

_requires_grad = operator.attrgetter("requires_grad")


class VariantKey(NamedTuple):
    """What selects a variant; `explain` says in words how two differ."""

    inputs: tuple[object, ...]
    training: tuple[bool, ...]
    requires_grad: tuple[bool, ...]
    grads: tuple[bool, ...]
    state: tuple[tuple[int, ...], ...]
    ambient: tuple[object, ...]


_AMBIENT = (
    "grad mode",
    "inference mode",
    "autocast on the CPU",
    "autocast type on the CPU",
    "autocast's cache",
    "number of threads",
    "deterministic algorithms",
    "deterministic algorithms, warning only",
    "filling of uninitialised memory",
    "oneDNN",
    "oneDNN, deterministic",
    "matmul precision",
    "flash attention",
    "efficient attention",
    "plain attention",
    "default dtype",
)


class VariantFacts:
    """Makes keys for one step function; looks its containers up once."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._modules = [module.__dict__ for _, module in reach.all_modules]
        self.leaves = [place.tensor for place in reach.leaves()]
        self._optimizers = [optimizer for _, optimizer in reach.optimizers]

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> VariantKey:
        """The key for a call with these arguments, now.

        Numbers among the arguments count by type only, as they are host parameters; strings, flags
        and None by value.
        """
        return VariantKey(
            _inputs(args, kwargs or {}),
            tuple(map(operator.getitem, self._modules, repeat("training"))),
            tuple(map(_requires_grad, self.leaves)),
            tuple([leaf.grad is not None for leaf in self.leaves]),
            tuple([tuple(map(len, o.state.values())) for o in self._optimizers]),
            ambient(),
        )

    def explain(self, old: VariantKey, new: VariantKey) -> list[str]:
        """How two keys differ, one line for each kind of fact."""
        lines = []
        if old.inputs != new.inputs:
            lines.append(f"the inputs were {old.inputs[1:]} and are {new.inputs[1:]} now")
        for what, a, b, names in (
            ("training", old.training, new.training, [p for p, _ in self._reach.all_modules]),
            ("requires_grad", old.requires_grad, new.requires_grad, self._leaf_names()),
            ("presence of .grad", old.grads, new.grads, self._leaf_names()),
        ):
            if a == b:
                continue
            changed = [n for n, x, y in zip(names, a, b, strict=True) if x != y]
            if changed:
                more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
                lines.append(f"{what} changed of {changed[0]}{more}")
        if old.state != new.state:
            lines.append("the optimizer holds other state")
        for what, x, y in zip(_AMBIENT, old.ambient, new.ambient, strict=True):
            if x != y:
                lines.append(f"{what} was {x} and is {y} now")
        return lines

    def _leaf_names(self) -> list[str]:
        return [self._reach.name(leaf) for leaf in self.leaves]


def ambient() -> tuple[object, ...]:
    """The settings of torch that kernels and recorded programs depend on, named by `_AMBIENT`."""
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.is_autocast_cache_enabled(),
        torch.get_num_threads(),
        torch._C._get_deterministic_algorithms(),
        torch._C._get_deterministic_algorithms_warn_only(),
        torch._C._get_deterministic_fill_uninitialized_memory(),
        torch._C._get_mkldnn_enabled(),
        torch._C._get_mkldnn_deterministic(),
        torch._C._get_float32_matmul_precision(),
        torch._C._get_flash_sdp_enabled(),
        torch._C._get_mem_efficient_sdp_enabled(),
        torch._C._get_math_sdp_enabled(),
        torch.get_default_dtype(),
    )


def _inputs(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[object, ...]:
    leaves: list[Any]
    layout: object
    if not kwargs and all(type(a) is torch.Tensor for a in args):
        leaves, layout = list(args), len(args)  # Flattening would cost more than all the rest.
    else:
        leaves, layout = tree_flatten((args, kwargs))
    storages: dict[int, int] = {}
    found: list[object] = [layout]
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            first = storages.setdefault(leaf.untyped_storage()._cdata, len(storages))
            found.append(
                (leaf.shape, leaf.stride(), leaf.dtype, leaf.device, leaf.requires_grad, first)
            )
        elif leaf is None or isinstance(leaf, bool | str):
            found.append(leaf)
        else:
            found.append(type(leaf))
    return tuple(found)
