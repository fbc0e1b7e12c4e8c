"""Which variant is the right one: facts that choose between programs instead of being errors.

    inputs        shapes, dtypes, strides, devices, and which inputs share a storage
    training      the `training` flag of every module
    requires_grad of every parameter
    ambient       grad mode, autocast, threads, determinism, oneDNN, default dtype, ...

A key is a tuple of tuples: hashable, comparable, and cheap enough to be made before every step.
Among the variants of one key, gradients, optimizer state and numbers decide (step.py).
"""

from __future__ import annotations

import dataclasses
import operator
import types
from collections.abc import Mapping
from itertools import repeat
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import (
    TreeSpec,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_unflatten,
)

from fitstep.errors import CaptureError
from fitstep.state.discover import discover
from fitstep.state.nodes import Reach, is_number

_requires_grad = operator.attrgetter("requires_grad")


class VariantKey(NamedTuple):
    """What selects a variant; `explain` says in words how two differ."""

    inputs: tuple[object, ...]
    training: tuple[bool, ...]
    requires_grad: tuple[bool, ...]
    ambient: tuple[object, ...]


_LEAST = 5e-324  # Of all numbers above 0.
_AMBIENT = (
    "grad mode",
    "inference mode",
    "autocast on the CPU",
    "autocast type on the CPU",
    "autocast on the GPU",
    "autocast type on the GPU",
    "autocast's cache",
    "number of threads",
    "deterministic algorithms",
    "deterministic algorithms, warning only",
    "filling of uninitialised memory",
    "oneDNN",
    "oneDNN, deterministic",
    "cuDNN",
    "cuDNN, benchmark",
    "cuDNN, deterministic",
    "cuDNN's precision",
    "matmul precision",
    "flash attention",
    "efficient attention",
    "plain attention",
    "default dtype",
    "flushing of denormal numbers",
)


class VariantFacts:
    """Makes keys for one step function; looks its containers up once."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._modules = [module.__dict__ for _, module in reach.all_modules]
        self.leaves = [place.tensor for place in reach.leaves()]
        self._guarded = guarded(reach)

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> VariantKey:
        """The key for a call with these arguments, now.

        Numbers among the arguments count by type only, as they are host parameters; strings, flags
        and None by value. Raises CaptureError for an argument that a program cannot be given.
        """
        return VariantKey(
            _inputs(args, kwargs or {}, self._guarded),
            # From lists: of tuples made of iterators Python keeps up to 2,000 of each size.
            (*map(operator.getitem, self._modules, repeat("training")),),
            (*map(_requires_grad, self.leaves),),
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
        ):
            if a == b:
                continue
            changed = [n for n, x, y in zip(names, a, b, strict=True) if x != y]
            if changed:
                more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
                lines.append(f"{what} changed of {changed[0]}{more}")
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
        torch.is_autocast_enabled("cuda"),
        torch.get_autocast_dtype("cuda"),
        torch.is_autocast_cache_enabled(),
        torch.get_num_threads(),
        torch._C._get_deterministic_algorithms(),
        torch._C._get_deterministic_algorithms_warn_only(),
        torch._C._get_deterministic_fill_uninitialized_memory(),
        torch._C._get_mkldnn_enabled(),
        torch._C._get_mkldnn_deterministic(),
        torch._C._get_cudnn_enabled(),
        torch._C._get_cudnn_benchmark(),
        torch._C._get_cudnn_deterministic(),
        torch._C._get_fp32_precision_getter("cuda", "conv"),
        torch._C._get_float32_matmul_precision(),
        torch._C._get_flash_sdp_enabled(),
        torch._C._get_mem_efficient_sdp_enabled(),
        torch._C._get_math_sdp_enabled(),
        torch.get_default_dtype(),
        not _LEAST > 0.0,  # torch.set_flush_denormal() has no other trace.
    )


def guarded(reach: Reach) -> frozenset[int]:
    """Ids of the objects within reach: what changes in them is noticed by the guards."""
    return frozenset(id(node.owner) for node in reach.nodes)


def argument_fact(leaf: object, known: frozenset[int]) -> object:
    """What of an argument selects a variant. Equal facts, equal programs.

    `known`: see `guarded`. Raises CaptureError for an object whose contents no fact stands for:
    what it holds at compile time would be used in every step.
    """
    if isinstance(leaf, torch.Tensor):
        if leaf.layout is not torch.strided or leaf.is_quantized:
            raise CaptureError(f"it is not dense ({leaf.layout})", todo="pass x.to_dense()")
        return (leaf.shape, leaf.stride(), leaf.dtype, leaf.device, leaf.requires_grad)
    if leaf is None or isinstance(leaf, bool | str):
        return leaf
    if isinstance(leaf, int | float):
        return type(leaf)
    if is_number(leaf):
        return (type(leaf), repr(leaf))
    if id(leaf) in known:
        return ("object", id(leaf))
    if _is_constant(leaf):
        return leaf
    raise CaptureError(
        f"it is of type {type(leaf).__name__}, and a captured step would see what "
        "is in it now, for ever",
        todo=_instead(leaf),
    )


def refused_argument(
    error: CaptureError, leaves: list[Any], spec: TreeSpec, i: int
) -> CaptureError:
    """`error` of `argument_fact` with the name of the argument, leaf `i` of (args, kwargs)."""
    path = tree_flatten_with_path(tree_unflatten(leaves, spec))[0][i][0]
    name = str(path[1].key) if path[0].idx else str(path[1].idx)  # type: ignore[attr-defined]
    return CaptureError(
        f"argument {name}{keystr(path[2:])} of the step function cannot be followed from step to "
        f"step: {error.problem}",
        todo=error.todo,
    )


def _is_constant(leaf: object) -> bool:
    """Whether an object means the same for ever: a class, a function that has no state."""
    if isinstance(leaf, type | types.ModuleType) or leaf is ... or leaf is NotImplemented:
        return True
    if isinstance(leaf, types.BuiltinFunctionType):
        return leaf.__self__ is None or isinstance(leaf.__self__, type | types.ModuleType)
    if not isinstance(leaf, types.FunctionType):
        return False
    reach = discover(leaf)
    return not reach.tensors and not reach.generators and not any(True for _ in reach.numbers())


def _instead(leaf: object) -> str:
    """What to pass in place of an argument."""
    if any(base.__name__ == "ndarray" for base in type(leaf).__mro__):
        return "pass a tensor: torch.from_numpy(x), or torch.as_tensor(x)"
    if isinstance(leaf, Mapping):
        return "pass a dict of tensors: dict(x)"
    if dataclasses.is_dataclass(leaf):
        return "pass a dict of its fields, vars(x), or its tensors themselves"
    if hasattr(type(leaf), "__next__"):
        return "pass the batch itself: next(x)"
    if isinstance(leaf, torch.nn.Module | torch.optim.Optimizer):
        return (
            "let the step function reach it (closure, global, self), or pass it as model= or "
            "optimizer= too"
        )
    return (
        "pass its tensors and numbers themselves, or let the step function reach it: in its "
        "closure, as a global, or as an attribute of self"
    )


def flattened(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], object]:
    """The leaves of arguments, and what tells how they lie in them."""
    if not kwargs and all(type(a) is torch.Tensor for a in args):
        return list(args), len(args)  # Flattening would cost more than all the rest.
    return tree_flatten((args, kwargs))


def _inputs(
    args: tuple[Any, ...], kwargs: dict[str, Any], known: frozenset[int]
) -> tuple[object, ...]:
    leaves, layout = flattened(args, kwargs)
    storages: dict[int, int] = {}
    found: list[object] = [layout]
    for i, leaf in enumerate(leaves):
        try:
            found.append(argument_fact(leaf, known))
        except CaptureError as error:
            raise refused_argument(error, *tree_flatten((args, kwargs)), i) from None
        if isinstance(leaf, torch.Tensor):
            found.append(storages.setdefault(leaf.untyped_storage()._cdata, len(storages)))
    return tuple(found)
