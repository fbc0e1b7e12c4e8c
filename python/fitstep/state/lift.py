"""One fake for every real tensor: the memo behind the swap.

Ties, the Parameter type, `requires_grad`, `.grad`, views and shared storages come out as they were,
because all fakes come from one fake mode. What `from_tensor` does not take along is added here:
tensor hooks, Python attributes, and the numbers in 0-dim tensors that optimizers read by `.item()`.
"""

from __future__ import annotations

import io
import types
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from fitstep.errors import CaptureError, user_location
from fitstep.state import forms
from fitstep.state.nodes import Place
from fitstep.state.walk import is_open

Geometry = tuple[int, torch.Size, tuple[int, ...], torch.dtype]


class HeldIterator:
    """Stands for an iterator while a step is recorded, as nothing could put back what it gave."""

    def __init__(self, real: object) -> None:
        self._real = real

    def __iter__(self) -> HeldIterator:
        return self

    def __next__(self) -> object:
        raise CaptureError(
            f"the step takes its data from an iterator itself (a {type(self._real).__name__}); a "
            "captured step would see the first of them for ever",
            where=user_location(),
            todo="draw the batch before the step and pass it as an argument: step(*next(iterator))",
        )

    def __getattr__(self, name: str) -> object:
        if name in ("send", "throw", "close"):  # They move a generator too.
            return lambda *_args: self.__next__()
        if name == "_real":  # Asked by copies, before they have one.
            raise AttributeError(name)
        return getattr(self._real, name)


@dataclass(slots=True, eq=False)
class Pair:
    """A real tensor, its fake, and how the fake was when the recording began."""

    real: torch.Tensor
    fake: torch.Tensor
    place: Place | None  # The place that names it best; None for a gradient's or key's extra.
    storage: torch.UntypedStorage  # Held, so that its address is not given to another storage.
    storage_bytes: int
    geometry: Geometry
    grad: torch.Tensor | None
    requires_grad: bool
    inner: frozenset[str] = frozenset()  # Attributes that FakeTensor itself keeps.
    attributes: dict[str, object] = field(default_factory=dict)


class Fakes:
    """The memo. `constants` holds the ids of the 0-dim tensors whose fakes know their number."""

    def __init__(self, mode: FakeTensorMode, places: list[Place], constants: set[int]) -> None:
        self.mode = mode
        self.pairs: list[Pair] = []
        self._places = {id(place.tensor): place for place in places}
        self._constants = constants
        self._by_real: dict[int, Pair] = {}
        self._by_fake: dict[int, Pair] = {}
        self._by_real_storage: dict[int, Pair] = {}
        self._by_fake_storage: dict[int, Pair] = {}

    def of(self, real: torch.Tensor) -> torch.Tensor:
        """The fake of a real tensor, made at the first question."""
        pair = self._by_real.get(id(real))
        return pair.fake if pair is not None else self._make(real).fake

    def pair_of_fake(self, fake: torch.Tensor) -> Pair | None:
        return self._by_fake.get(id(fake))

    def pair_of_fake_storage(self, fake: torch.Tensor) -> Pair | None:
        return self._by_fake_storage.get(storage_id(fake))

    def pair_of_real_storage(self, real: torch.Tensor) -> Pair | None:
        return self._by_real_storage.get(storage_id(real))

    def value(self, value: Any) -> Any:
        """A value of an entry with fakes in it; the value itself where there is nothing to do."""
        if isinstance(value, torch.Tensor):
            return self.of(value)
        if isinstance(value, tuple | frozenset):
            return rebuild_tuple(value, [self.value(item) for item in value])
        if isinstance(value, weakref.ref):
            target = value()
            return weakref.ref(self.of(target)) if isinstance(target, torch.Tensor) else value
        if isinstance(value, types.BuiltinFunctionType) and isinstance(
            value.__self__, torch.Tensor
        ):
            return getattr(self.of(value.__self__), value.__name__)
        if is_hidden_iterator(value):
            return HeldIterator(value)
        return value

    def _make(self, real: torch.Tensor) -> Pair:
        place = self._places.get(id(real))
        fake = self._from_tensor(real, place)
        pair = Pair(
            real=real,
            fake=fake,
            place=place,
            storage=fake.untyped_storage(),
            storage_bytes=fake.untyped_storage().nbytes(),
            geometry=geometry_of(fake),
            grad=None,
            requires_grad=fake.requires_grad,
            inner=frozenset(vars(fake)),
        )
        self.pairs.append(pair)
        self._by_real[id(real)] = self._by_fake[id(fake)] = pair
        self._by_real_storage.setdefault(storage_id(real), pair)
        self._by_fake_storage.setdefault(storage_id(fake), pair)
        if real.is_leaf and real.grad is not None:
            pair.grad = fake.grad = self.of(real.grad)
        self._add_hooks(pair)
        return pair

    def _from_tensor(self, real: torch.Tensor, place: Place | None) -> torch.Tensor:
        try:
            if real.layout is not torch.strided or real.is_quantized:
                raise NotImplementedError("only dense tensors have one storage")
            fake = self.mode.from_tensor(real)
        except Exception as error:
            path = place.path if place else "a tensor"
            raise CaptureError(
                f"cannot make a stand-in for {path} ({real.layout}, {real.dtype}): {error}",
                todo="keep it out of reach of the step function, or make it dense",
            ) from error
        if id(real) in self._constants:
            fake.constant = real.detach().clone()
            self.mode.fake_tensor_converter.add_constant_storage_mapping(fake)
        return fake

    def _add_hooks(self, pair: Pair) -> None:
        real, fake = pair.real, pair.fake
        for hook in (real._backward_hooks or {}).values():
            if fake.requires_grad:
                fake.register_hook(hook)
        for hook in (real._post_accumulate_grad_hooks or {}).values():
            fake.register_post_accumulate_grad_hook(hook)
        attributes = forms.attributes_of(real) or {}
        for name, value in attributes.items():
            if name not in pair.inner:
                pair.attributes[name] = vars(fake)[name] = self.value(value)


class Externals:
    """Real tensors that a recording meets and that were not found beforehand.

    They are lifted then and there, and are inputs of the program. The key is storage and geometry,
    not identity: what reaches a dispatch mode is often a fresh object for the same tensor.
    """

    def __init__(self, fakes: Fakes) -> None:
        self._fakes = fakes
        self._memo: dict[tuple[int, Geometry], tuple[torch.Tensor, torch.Tensor]] = {}

    def pairs(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """(real, fake) of all so far, in the order in which they were met."""
        return list(self._memo.values())

    def fake(self, real: torch.Tensor) -> torch.Tensor:
        """The fake to go on with; CaptureError where recording it would be silently wrong."""
        with _disable_current_modes():
            key = (storage_id(real), geometry_of(real))
            if key not in self._memo:
                self._check(real)
                self._memo[key] = (real, self._fakes.mode.from_tensor(real.detach()))
            return self._memo[key][1]

    def real(self, fake: torch.Tensor) -> torch.Tensor | None:
        """The real tensor behind an external fake, by identity."""
        return next((r for r, f in self._memo.values() if f is fake), None)

    def _check(self, real: torch.Tensor) -> None:
        pair = self._fakes.pair_of_real_storage(real)
        # A second way to a buffer is harmless: both fakes share one storage, like the real ones. A
        # parameter is not: its gradient would flow past the program, into the real one's .grad.
        if pair is not None and pair.requires_grad:
            path = pair.place.path if pair.place else "a parameter"
            raise CaptureError(
                f"{path} is also reached on a path that fitstep did not find",
                where=user_location(),
                todo="reach it through the module, a list, a dict or the closure; not through an "
                "iterator, a cache or an object with hidden attributes",
            )
        if real.requires_grad:
            raise CaptureError(
                f"a tensor of shape {tuple(real.shape)} that requires a gradient is reached on a "
                "path that fitstep did not find",
                where=user_location(),
                todo="keep it in the closure, an attribute, a list or a dict of the step function, "
                "or pass the module that owns it as model=",
            )


def is_hidden_iterator(value: object) -> bool:
    """Whether a value is an iterator whose position cannot be seen: a generator, a DataLoader's.

    Those of a user's own classes can: their attributes are within reach.
    """
    if not hasattr(type(value), "__next__") or isinstance(value, io.IOBase):
        return False
    return forms.attributes_of(value) is None or not is_open(type(value))


@contextmanager
def outside_modes() -> Iterator[None]:
    """Runs tensor code on real tensors, whatever modes are active."""
    with _disable_current_modes(), torch.no_grad():
        yield


def storage_id(tensor: torch.Tensor) -> int:
    """Identifies a storage for as long as it lives."""
    return int(tensor.untyped_storage()._cdata)


def geometry_of(tensor: torch.Tensor) -> Geometry:
    """Where a strided tensor lies in its storage."""
    return (int(tensor.storage_offset()), tensor.shape, tensor.stride(), tensor.dtype)


def rebuild_tuple(value: Any, items: list[Any]) -> Any:
    """A tuple, named tuple or frozenset of the same type with other items; itself if none is."""
    if all(a is b for a, b in zip(value, items, strict=True)):
        return value
    if hasattr(value, "_make"):
        return type(value)._make(items)
    return type(value)(items)
