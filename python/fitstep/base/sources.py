"""Where an operator was called, for messages: module, file and line."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch

from .. import _core

_TORCH_DIR = os.path.dirname(torch.__file__)
_OWN_DIR = os.path.dirname(os.path.dirname(__file__)) + os.sep
_Source = tuple[str, str, int]
_NOWHERE: _Source = ("", "", 0)


def _is_users(file: str) -> bool:
    return not (file.startswith((_OWN_DIR, _TORCH_DIR, "<")) or file == contextlib.__file__)


def user_frame() -> tuple[str, int]:
    """File and line of the innermost Python frame outside torch, the standard library's
    `contextlib` and fitstep; ("", 0) if there is none."""
    return _core.user_frame(_is_users)


class Sources:
    """The source of each recorded operator. A backward op has the source of its forward op."""

    def __init__(self) -> None:
        self._modules: list[str] = []
        self._names: dict[int, str] = {}
        self._forward: dict[int, _Source] = {}

    @contextlib.contextmanager
    def following(self, roots: dict[str, torch.nn.Module]) -> Iterator[None]:
        """In its body notes which module's forward is running, for modules below `roots`."""
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
            self._modules.clear()

    def forget(self) -> None:
        """Drops the sources of forward ops of earlier calls."""
        self._forward.clear()

    def _enter(self, module: torch.nn.Module, _args: Any) -> None:
        self._modules.append(self._names.get(id(module), type(module).__name__))

    def _leave(self, _module: torch.nn.Module, _args: Any, _result: Any) -> None:
        if self._modules:
            self._modules.pop()

    def now(self) -> _Source:
        """Module path, file and line of the operator that is called now."""
        node = torch._C._current_autograd_node()
        if node is not None:
            return self._forward.get(node._sequence_nr(), _NOWHERE)
        source = (self._modules[-1] if self._modules else "", *user_frame())
        if torch.is_grad_enabled():
            self._forward[torch.autograd._get_sequence_nr() - 1] = source
        return source
