"""The dispatch mode that records a step: every operator call, where it was written, and what it
drew from."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from . import _core
from .errors import CaptureError, user_location

if TYPE_CHECKING:
    from collections.abc import Callable

_TORCH_DIR = os.path.dirname(torch.__file__)
_OWN_DIR = os.path.dirname(__file__)
_Source = tuple[str, str, int]
_NOWHERE: _Source = ("", "", 0)
# PyTorch's numbers of its types, as the compiled half uses them.
_DTYPES = {
    _core.dtype_number(value): value for value in vars(torch).values() if type(value) is torch.dtype
}


def user_frame() -> tuple[str, int]:
    """File and line of the innermost Python frame outside torch, the standard library's
    `contextlib` and fitstep; ("", 0) if there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_TORCH_DIR, _OWN_DIR, "<")) and not file.endswith("contextlib.py"):
            return file, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return "", 0


def content(tensor: torch.Tensor) -> bytes:
    """The bytes of a real tensor's elements, in their order."""
    flat = tensor.contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


_SEEDS_ON_HOST = (torch.ops.aten._scaled_dot_product_efficient_attention.default,)
_FACTORIES = (
    torch.ops.aten.zeros.default,
    torch.ops.aten.ones.default,
    torch.ops.aten.full.default,
    torch.ops.aten.scalar_tensor.default,
)


class Sources:
    """Where each recorded call comes from. A backward op comes from where its forward op was."""

    def __init__(self) -> None:
        self._modules: list[str] = []
        self._names: dict[int, str] = {}
        self._forward: dict[int, _Source] = {}

    @contextlib.contextmanager
    def following(self, roots: dict[str, torch.nn.Module]) -> Iterator[None]:
        """Follows which module's forward is running, for modules below `roots`."""
        for root, module in roots.items():
            for name, child in module.named_modules():
                self._names.setdefault(id(child), f"{root}.{name}" if name else root)
        hooks = torch.nn.modules.module
        before = hooks.register_module_forward_pre_hook(self._enter)
        after = hooks.register_module_forward_hook(self._leave, always_call=True)
        try:
            yield
        finally:
            before.remove()
            after.remove()

    def _enter(self, module: torch.nn.Module, _args: Any) -> None:
        self._modules.append(self._names.get(id(module), type(module).__name__))

    def _leave(self, _module: torch.nn.Module, _args: Any, _result: Any) -> None:
        if self._modules:
            self._modules.pop()

    def now(self) -> _Source:
        node = torch._C._current_autograd_node()
        if node is not None:
            return self._forward.get(node._sequence_nr(), _NOWHERE)
        source = (self._modules[-1] if self._modules else "", *user_frame())
        if torch.is_grad_enabled():
            self._forward[torch.autograd._get_sequence_nr() - 1] = source
        return source


def _not_dense(func: Any, tensor: torch.Tensor, source: _Source) -> CaptureError:
    module, file, line = source
    where = f"{file}:{line}" + (f" in {module}" if module else "") if file else user_location()
    return CaptureError(
        f"{func._schema.name} works on a tensor that is not dense ({tensor.layout}), which has no "
        "one storage to plan",
        where=where,
        todo="use dense tensors: nn.Embedding(sparse=False), x.to_dense()",
    )


class RecordingMode(TorchDispatchMode):
    """Records every operator call into `recorder`.

    `external(tensor)` gives the fake of a real tensor that was not swapped. `region()` is the
    number of the optimizer call under way, -1 outside. `profile` knows the real geometry of results
    whose fakes are wrong.
    """

    def __init__(
        self,
        recorder: Any,
        fake_mode: FakeTensorMode,
        profile: Any,
        sources: Sources,
        external: Callable[[torch.Tensor], torch.Tensor],
        region: Callable[[], int],
    ) -> None:
        super().__init__()
        self.recorder = recorder
        self.calls = 0
        self.literals: list[bytes] = []  # Those made outside optimizers.
        self._literals: dict[int, torch.Tensor] = {}  # By storage; held, so that none is reused.
        self._fake_mode = fake_mode
        self._profile = profile
        self._sources = sources
        self._external = external
        self._region = region
        self._operators: dict[Any, Any] = {}
        self._silent = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace in ("profiler", "prim"):
            return func(*args, **kwargs)
        if func is torch.ops.aten._local_scalar_dense.default:
            self._check_number(args[0])
        if func is torch.ops.aten.lift_fresh.default and not isinstance(args[0], FakeTensor):
            return self._literal(func, args[0])
        args, kwargs = tree_map(self._as_fake, (args, kwargs))
        results = self._view_of_known(func, args, kwargs)
        if results is None:
            results = func(*args, **kwargs)
        if self._silent:
            return results
        if func._schema.name.endswith("_") and isinstance(results, FakeTensor):
            # On a fake that knows its number, an in-place op may give back another fake.
            results = args[0] if args and isinstance(args[0], FakeTensor) else results
        if func in _FACTORIES and results.dim() == 0:
            self._know_content(func, args, kwargs, results)
        if self._profile.correction_count():
            results = self._corrected(func, args, kwargs, results)
        if func in _SEEDS_ON_HOST and results[0].device.type != "cpu":
            results = self._with_host_seeds(results)
        if isinstance(results, tuple):
            results = self._apart(func, results)
        self.record(func, args, kwargs, results)
        return results

    def _with_host_seeds(self, results: tuple[Any, ...]) -> tuple[Any, ...]:
        """Fakes of an attention's seed and offset are the GPU's; its kernel makes the host's."""
        self._silent = True
        try:
            seeds = [torch.empty((), dtype=torch.long, device="cpu") for _ in range(2)]
        finally:
            self._silent = False
        return (*results[:2], *seeds)

    def _view_of_known(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A view of a fake that knows its number: FakeTensor would give it a storage of its own.

        None where the call is no such view.
        """
        if not (args and isinstance(args[0], FakeTensor)) or args[0].constant is None:
            return None
        returns = func._schema.returns
        if len(returns) != 1 or returns[0].alias_info is None or returns[0].alias_info.is_write:
            return None
        base, constant = args[0], args[0].constant
        base.constant = None
        try:
            view = func(*args, **kwargs)
        finally:
            base.constant = constant
        if isinstance(view, FakeTensor):
            with _disable_current_modes():
                view.constant = func(constant, *args[1:], **kwargs)
            self._fake_mode.fake_tensor_converter.add_constant_storage_mapping(view)
        return view

    def _know_content(self, func: Any, args: Any, kwargs: Any, fake: Any) -> None:
        """Optimizers make 0-dim state by `torch.ones(())` and read it by `.item()`.

        What is known of a fake is in memory of the host, whatever device the fake is of.
        """
        if fake.device.type != "cpu":
            kwargs = {**kwargs, "device": "cpu"}
        with _disable_current_modes():
            fake.constant = func(*args, **kwargs)
        self._literals[fake.untyped_storage()._cdata] = fake
        self._fake_mode.fake_tensor_converter.add_constant_storage_mapping(fake)

    def _check_number(self, tensor: torch.Tensor) -> None:
        """Optimizers read their step count, which their shadows repeat. Anybody else who reads a
        number out of a buffer would be given the one of the capture for ever."""
        known = isinstance(tensor, FakeTensor) and tensor.constant is not None
        if known and self._region() < 0 and tensor.untyped_storage()._cdata not in self._literals:
            raise CaptureError(
                "the step reads a number out of a buffer (.item(), float()), which later steps may "
                "change",
                where=user_location(),
                todo="compute with the tensor itself; BatchNorm needs a momentum that is not None",
            )

    @staticmethod
    def is_fake(tensor: torch.Tensor) -> bool:
        return isinstance(tensor, FakeTensor)

    def replace_last(self, func: Any, args: Any, kwargs: Any, results: Any) -> Any:
        """Records `func` in place of the call that has just made `results`."""
        self.recorder.drop_last()
        return self.record(func, args, kwargs, results)

    def _operator(self, func: Any) -> Any:
        operator = self._operators.get(func)
        if operator is None:
            schema = func._schema
            operator = _core.find_operator(schema.name, schema.overload_name)
            self._operators[func] = operator
        return operator

    def _corrected(self, func: Any, args: Any, kwargs: Any, results: Any) -> Any:
        """The results with the geometry that the real kernel was seen to give them."""
        real = self.recorder.corrected(
            self._operator(func), tuple(args), kwargs, torch.is_grad_enabled(), self._profile
        )
        if real is None:
            return results
        leaves, spec = tree_flatten(results)
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self._silent = True
        try:
            for place, (sizes, strides, _offset, dtype) in zip(places, real, strict=False):
                wanted = _DTYPES[dtype]
                old = leaves[place]
                if (list(old.shape), list(old.stride()), old.dtype) != (sizes, strides, wanted):
                    leaves[place] = torch.empty_strided(
                        sizes, strides, dtype=wanted, device=old.device
                    )
        finally:
            self._silent = False
        return tree_unflatten(leaves, spec)

    def _apart(self, func: Any, results: tuple[Any, ...]) -> tuple[Any, ...]:
        """The results with a storage for each: some fakes of new tensors are one tensor twice."""
        made = [r for r in results if isinstance(r, torch.Tensor)]
        if len({r.untyped_storage()._cdata for r in made}) == len(made):
            return results
        if any(of.alias_info is not None for of in func._schema.returns):
            return results
        known: set[int] = set()
        apart = []
        self._silent = True
        try:
            for result in results:
                if isinstance(result, torch.Tensor):
                    if result.untyped_storage()._cdata in known:
                        result = torch.empty_strided(
                            result.shape,
                            result.stride(),
                            dtype=result.dtype,
                            device=result.device,
                        )
                    known.add(result.untyped_storage()._cdata)
                apart.append(result)
        finally:
            self._silent = False
        return tuple(apart)

    def record(self, func: Any, args: Any, kwargs: Any, results: Any) -> Any:
        operator = self._operator(func)
        mode = torch.is_grad_enabled()
        source = self._sources.now()
        for value in tree_leaves((args, kwargs, results)):
            if isinstance(value, torch.Tensor) and value.layout is not torch.strided:
                raise _not_dense(func, value, source)
        self.calls += 1
        self.recorder.record(operator, tuple(args), kwargs, results, source, self._region(), mode)
        return results

    def _as_fake(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
            return self._external(value)
        return value

    def _literal(self, func: Any, real: torch.Tensor) -> torch.Tensor:
        fake: torch.Tensor = func(real)
        with _disable_current_modes():
            kept = real.clone()
            if self._region() < 0:
                self.literals.append(content(kept))
        self._literals[fake.untyped_storage()._cdata] = fake
        self.recorder.literal(fake, kept)
        return fake
