"""Undo: saves all Python state within reach before a preview, and puts it back after the preview.

    entries of every container within reach   by saved entries, in the same container objects
    gradients, version counters               by saved values
    numpy arrays, bytearrays, ctypes' data    by saved bytes
    generators                                by saved states
    iterators                                 replaced: a drawn value cannot be put back
    files, progress bars, trackers            replaced: written text cannot be taken back

State that functions of installed packages reach is added when the preview enters them
(`entered.py`). State that fitstep cannot see is not undone. To find such state, `compile` records
the first call twice and compares the recordings.
"""

from __future__ import annotations

import contextlib
import decimal
import functools
import gc
import itertools
import locale
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import _tensor_str

from .. import _core
from ..base.ambient import ambient, set_ambient
from ..errors import CaptureError
from ..memory.buffers import as_bytes, content_of, find_buffers, write
from ..state import Node, Reach
from ..state.caches import CacheState
from ..state.forms import Entry, SetForm, attributes_of
from ..state.nodes import is_leaf, tables_in
from ..state.rng import GeneratorStates
from ..state.unshaped import UnshapedState
from .stand_ins import stand_in

_C: Any = torch._C


def _set_anomaly(wanted: tuple[bool, bool]) -> None:
    torch.set_anomaly_enabled(*wanted)


def _precision() -> tuple[int, str]:
    return decimal.getcontext().prec, decimal.getcontext().rounding


def _set_precision(wanted: tuple[int, str]) -> None:
    decimal.getcontext().prec, decimal.getcontext().rounding = wanted


def _umask() -> int | None:
    """The process's umask from /proc; os.umask() cannot read it without setting another one."""
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return None


# (get, set) of settings of the process. ambient.py has those of kernels.
_SETTINGS: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (_C._get_flash_sdp_enabled, _C._set_sdp_use_flash),
    (_C._get_mem_efficient_sdp_enabled, _C._set_sdp_use_mem_efficient),
    (_C._get_math_sdp_enabled, _C._set_sdp_use_math),
    (_C._get_cudnn_sdp_enabled, _C._set_sdp_use_cudnn),
    *(
        (functools.partial(get, kind), functools.partial(put, kind))
        for kind in ("cpu", "cuda")
        for get, put in (
            (torch.get_autocast_dtype, torch.set_autocast_dtype),
            (torch.is_autocast_enabled, torch.set_autocast_enabled),
        )
    ),
    (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    (lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()), _set_anomaly),
    (
        lambda: dict(vars(_tensor_str.PRINT_OPTS)),
        lambda was: vars(_tensor_str.PRINT_OPTS).update(was),
    ),
    (lambda: logging.root.manager.disable, logging.disable),
    (lambda: sys.excepthook, lambda was: setattr(sys, "excepthook", was)),
    (lambda: gc.callbacks[:], lambda was: gc.callbacks.__setitem__(slice(None), was)),
    (gc.isenabled, lambda was: gc.enable() if was else gc.disable()),
    (gc.get_threshold, lambda was: gc.set_threshold(*was)),
    (gc.get_debug, gc.set_debug),
    (sys.getrecursionlimit, sys.setrecursionlimit),
    (
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        lambda was: signal.pthread_sigmask(signal.SIG_SETMASK, was),
    ),
    (sys.getswitchinterval, sys.setswitchinterval),
    (threading.stack_size, threading.stack_size),
    (socket.getdefaulttimeout, socket.setdefaulttimeout),
    (
        lambda: locale.setlocale(locale.LC_ALL),
        lambda was: locale.setlocale(locale.LC_ALL, was),
    ),
    (_umask, lambda was: was is None or os.umask(was)),
    (os.getcwd, os.chdir),
    (lambda: list(sys.path), lambda was: sys.path.__setitem__(slice(None), was)),
    (_precision, _set_precision),
)


def _check_casts() -> None:
    """Raises CaptureError in a region of autocast: what it has cast cannot be put back."""
    is_on = any(torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda"))
    if is_on and torch.is_autocast_cache_enabled():
        raise CaptureError(
            "autocast is on around the step; until it ends, PyTorch keeps what it has cast, so "
            "later steps would train with the first step's weights",
            todo="write `with torch.autocast(...):` in the step, around the forward pass, or pass "
            "cache_enabled=False to it",
        )


class Undo:
    """Saves everything within reach when it is created; `put_back` restores it.

    Raises:
        CaptureError: in a region of autocast that keeps what it casts.
    """

    def __init__(self, reach: Reach, arguments: Iterable[torch.Tensor] = ()) -> None:
        _check_casts()
        self._entries: list[tuple[Node, list[Entry]]] = []
        self._objects: list[tuple[object, type, dict[str, object] | None]] = []
        self._grads: list[tuple[torch.Tensor, Any]] = []
        self._versions: list[tuple[torch.Tensor, int]] = []
        self._data: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._hooks: list[tuple[torch.Tensor, str, dict[Any, Any]]] = []
        self._autograd: list[tuple[torch.Tensor, _core.Autograd]] = []
        self._generators = GeneratorStates()
        self._caches: list[CacheState | UnshapedState] = []
        self._buffers: list[tuple[Any, Any]] = []
        self._tables: list[tuple[Any, Any]] = []
        self._environment = dict(os.environ)
        self._ambient = ambient()
        self._settings = [get() for get, _ in _SETTINGS]
        self._is_holding = False
        self.add(reach, arguments)

    def add(self, reach: Reach, arguments: Iterable[torch.Tensor] = ()) -> None:
        """Saves what is in `reach`, too, as it is now. Calls no operator that is followed."""
        entries = [(node, node.entries()) for node in reach.nodes]
        tensors = [*(place.tensor for place in reach.unique()), *arguments]
        tensors = [tensor for tensor in tensors if not tensor.is_inference()]
        self._entries += entries
        self._objects += [
            (node.owner, type(node.owner), attributes_of(node.owner))
            for node in reach.nodes
            if node.role == "attribute" and not isinstance(node.owner, type)
        ]
        self._grads += [(t, t.grad) for t in tensors if is_leaf(t) or t.retains_grad]
        self._versions += [(tensor, tensor._version) for tensor in tensors]
        with _core.NotFollowed(), torch._C.DisableTorchFunctionSubclass():
            self._data += [(tensor, tensor.detach()) for tensor in tensors]
        self._hooks += [
            (tensor, name, dict(getattr(tensor, name) or {}))
            for tensor in tensors
            for name in ("_backward_hooks", "_post_accumulate_grad_hooks")
        ]
        self._autograd += [(tensor, _core.Autograd(tensor)) for tensor in tensors]
        self._generators.add(reach.generators)
        self._caches += [CacheState(cache) for cache in reach.caches]
        self._caches += [UnshapedState(tensor) for tensor in reach.unshaped]
        self._buffers += find_buffers(entries)
        self._tables += tables_in(reach.huge)
        if self._is_holding:
            _hold(entries)

    def hold(self) -> None:
        """Until `put_back`, replaces iterators, files and trackers by stand-ins."""
        self._is_holding = True
        _hold(self._entries)

    def has_changed(self) -> bool:
        """Whether containers, generators, environment or settings differ from what was saved."""
        return (
            any(not _same_entries(node.entries(), was) for node, was in self._entries)
            or any(tensor._version != version for tensor, version in self._versions)
            or any(cache.has_changed() for cache in self._caches)
            or any(as_bytes(content_of(buffer)) != as_bytes(was) for buffer, was in self._buffers)
            or self._generators.have_moved()
            or self._environment != dict(os.environ)
            or any(get() != was for (get, _), was in zip(_SETTINGS, self._settings, strict=True))
        )

    def put_back(self) -> None:
        """Restores everything that was saved. May be called again. An error in one part does not
        keep the other parts from being restored.

        Restores what was added last first: of two saved states of an object the older one wins.
        """
        failed: Exception | None = None
        for part in (
            *(
                self._put_objects,
                self._put_entries,
                self._put_grads,
                self._put_data,
                self._put_hooks,
            ),
            *(
                self._put_buffers,
                self._put_tables,
                self._put_versions,
                self._put_process,
                self._put_caches,
            ),
        ):
            try:
                part()
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def _put_objects(self) -> None:
        for owner, kind, attributes in reversed(self._objects):
            if type(owner) is not kind:
                object.__setattr__(owner, "__class__", kind)
            if attributes is not None and attributes_of(owner) is not attributes:
                object.__setattr__(owner, "__dict__", attributes)

    def _put_entries(self) -> None:
        for node, was in reversed(self._entries):
            node.form.restore(node.container, was)
        for node, was in self._entries:
            if isinstance(node.form, SetForm) and not _same_entries(was, node.entries()):
                raise CaptureError(
                    f"the step changes the set {node.path({})}; compile has to undo this, and "
                    "cannot put back the order of the set's elements",
                    todo="use a dict or a list, which keep their order",
                )

    def _put_grads(self) -> None:
        for tensor, state in reversed(self._autograd):
            state.put_back(tensor)
        for tensor, grad in reversed(self._grads):
            if tensor.grad is not grad:
                tensor.grad = grad

    def _put_data(self) -> None:
        for tensor, data in reversed(self._data):
            if not _core.has_storage(data):
                continue
            is_resized = not tensor.is_nested and tensor.shape != data.shape
            if tensor.data_ptr() != data.data_ptr() or is_resized:
                tensor.data = data  # Undoes `.data =` and resize_().

    def _put_hooks(self) -> None:
        for tensor, name, was in reversed(self._hooks):
            hooks = getattr(tensor, name)
            if hooks is not None and dict(hooks) != was:
                hooks.clear()
                hooks.update(was)

    def _put_buffers(self) -> None:
        for buffer, content in reversed(self._buffers):
            write(buffer, content)

    def _put_tables(self) -> None:
        for table, was in reversed(self._tables):
            now, before = (_flat(one) if isinstance(one, dict) else one for one in (table, was))
            pairs = zip(now, before, strict=False)
            if len(table) == len(was) and all(a is b for a, b in pairs):
                continue
            table.clear()
            (table.extend if isinstance(table, list) else table.update)(was)

    def _put_versions(self) -> None:
        moved = [(t, version) for t, version in reversed(self._versions) if t._version != version]
        if moved:
            torch._C._autograd._unsafe_set_version_counter(
                tuple(t for t, _ in moved), tuple(version for _, version in moved)
            )

    def _put_process(self) -> None:
        if self._environment != dict(os.environ):
            os.environ.clear()
            os.environ.update(self._environment)
        for (get, put), was in zip(_SETTINGS, self._settings, strict=True):
            if get() != was:
                put(was)
        set_ambient(self._ambient)
        self._generators.restore()

    def _put_caches(self) -> None:
        for cache in self._caches:
            cache.restore()


def _same_entries(a: list[Entry], b: list[Entry]) -> bool:
    return len(a) == len(b) and all(
        x[0] is y[0] and x[1] is y[1] for x, y in zip(a, b, strict=True)
    )


def _hold(all_entries: list[tuple[Node, list[Entry]]]) -> None:
    for node, entries in all_entries:
        held = [(k, stand_in(v)) for k, v in entries]
        if any(a[1] is not b[1] for a, b in zip(entries, held, strict=True)):
            node.form.restore(node.container, held)


def _flat(table: dict[Any, Any]) -> Iterator[Any]:
    return itertools.chain.from_iterable(table.items())


def put_back(undo: Undo, *others: Any) -> None:
    """Undoes everything, also if the user presses Ctrl-C meanwhile; that is raised afterwards."""
    interrupt: KeyboardInterrupt | None = None
    while True:
        try:
            for other in others:
                other()
            undo.put_back()
            break
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt
