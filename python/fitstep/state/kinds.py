"""Kind: facts about a class that the walk needs for each object, computed once per class."""

from __future__ import annotations

import contextvars
import functools
import random
import types
import weakref
from collections import defaultdict
from collections.abc import Callable

import torch

from fitstep.state import forms
from fitstep.state.classes import SCHEDULERS, is_open, is_seen_class
from fitstep.state.nodes import is_array_type, is_enum

GENERATORS = (torch.Generator, random.Random)
STAND_INS = (
    *(types.MethodType, functools.partial, staticmethod, classmethod, property),
    *(functools.cached_property, weakref.ref, functools._lru_cache_wrapper),
    *(contextvars.ContextVar, memoryview, types.MappingProxyType, *weakref.ProxyTypes),
)
NUMPYS = (
    *("Generator", "RandomState", "SeedSequence"),
    *("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"),
)


class Kind:
    def __init__(self, kind: type, visit: Callable[..., None] | None, is_once: bool) -> None:
        self.visit = visit  # A method of Walk; None if such objects hold nothing.
        self.is_once = is_once  # Visit an object once, not at every path that leads to it.
        self.is_tensor_or_module = issubclass(kind, (torch.Tensor, torch.nn.Module))
        self.is_scripted = issubclass(kind, torch.jit.ScriptModule)
        self.is_module = issubclass(kind, torch.nn.Module)
        self.is_optimizer = issubclass(kind, torch.optim.Optimizer)
        self.is_scheduler = issubclass(kind, SCHEDULERS)
        self.is_array = is_array_type(kind)
        self.makes_values = issubclass(kind, defaultdict)
        self.form = forms.plain_form_of(kind)
        self.is_open = is_open(kind) or is_enum(kind)
        self.has_slots = bool(forms.slots_of(kind))
        self.classes = [base for base in kind.__mro__ if is_seen_class(base)]
