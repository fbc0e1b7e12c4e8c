"""What a recording bound anew, and how a run binds it for real.

    self.run = self.run * 0.9 + y       entry of an attribute dict: another tensor is there
    loss.backward()                     parameter.grad: a tensor where there was none
    optimizer.step(), the first         optimizer.state[p]: a dict with tensors and numbers in it
    history.append(loss.detach())       a list: one entry more
    parameter.requires_grad_(False)     a flag of a tensor

In-place writes are not here: they are ops of the program, on the same tensor object.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from fitstep.errors import CaptureError
from fitstep.state import forms
from fitstep.state.lift import Fakes, Pair, geometry_of, rebuild_tuple, storage_id
from fitstep.state.nodes import Node, Reach, Role

Kind = Literal["rebound", "new", "gone", "flag"]


@dataclass(slots=True, eq=False)
class Rebinding:
    """One entry that holds something else at the end of the recording than at its beginning.

    `before` and `key` are real; `after`, `tensors` and what `value` holds are fakes.
    """

    path: str
    role: Role
    kind: Kind
    container: Any  # The real container; the real tensor where the key is "grad" or a flag.
    key: Any
    before: torch.Tensor | None  # The real tensor that was there; None if none, or several.
    after: torch.Tensor | None  # The fake that is there now; None if none, or several.
    value: Any = None  # All that is there now: a tensor, or dicts and lists with tensors in them.
    tensors: list[tuple[str, torch.Tensor]] = field(default_factory=list)  # Fakes within `value`.
    form: forms.Form | None = None  # How to write the entry; None where the key is an attribute.

    def put(self, value: object) -> None:
        """Writes the real entry."""
        if self.form is None:
            setattr(self.container, self.key, value)
        elif self.kind == "gone":
            self.form.drop(self.container, self.key)
        elif self.kind == "new" and isinstance(self.form, forms.ListForm | forms.DequeForm):
            self.container.append(value)  # Wherever the end is by now.
        else:
            self.form.put(self.container, self.key, value)


@dataclass(slots=True, eq=False)
class Record:
    """A node's entries before the swap, and with fakes in them."""

    node: Node
    real: list[forms.Entry]
    swapped: list[forms.Entry]


def compare(reach: Reach, fakes: Fakes, records: Sequence[Record]) -> list[Rebinding]:
    """All rebindings, in the order of the walk. To be called before anything is put back.

    Raises CaptureError for what happened past the dispatcher: `.data =`, resized storages,
    replaced or new parameters.
    """
    _check_storages(fakes)
    found: list[Rebinding] = []
    known = {id(node.container) for node in reach.nodes} | {id(node.owner) for node in reach.nodes}
    for record in records:
        found.extend(_compare_node(reach, fakes, record, known))
    for pair in list(fakes.pairs):
        found.extend(_compare_tensor(reach, pair))
    return found


def rebuild(value: Any, real_of: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A copy of a value with real tensors for fakes; containers in it are new ones."""
    if isinstance(value, torch.Tensor):
        return real_of(value)
    if isinstance(value, tuple | frozenset):
        return rebuild_tuple(value, [rebuild(item, real_of) for item in value])
    for form, container in _open(value):
        twin = copy.copy(value)
        entries = [(rebuild(k, real_of), rebuild(v, real_of)) for k, v in form.entries(container)]
        inner = twin if container is value else forms.attributes_of(twin)
        form.write(inner, entries)
        return twin
    return value


def tensors_in(value: Any, known: set[int], path: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """(path, tensor) of all tensors within a value, not entering containers in `known`."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, tuple | frozenset):
        for i, item in enumerate(value):
            yield from tensors_in(item, known, f"{path}[{i}]")
    elif id(value) not in known:
        for form, container in _open(value):
            known = known | {id(value)}
            for key, item in form.entries(container):
                step = f"[{key!r}]" if form.plain else f".{key}"
                yield from tensors_in(item, known, path + step)


def _open(value: Any) -> Iterator[tuple[forms.Form, Any]]:
    """The one container that a value is or has; none for what is never copied."""
    if isinstance(value, torch.nn.Module | torch.optim.Optimizer | type) or callable(value):
        return
    form = forms.plain_form_of(value)
    if form is not None:
        yield form, value
        return
    attributes = forms.attributes_of(value)
    if attributes is not None:
        yield forms.AttributesForm(), attributes


def _compare_node(
    reach: Reach, fakes: Fakes, record: Record, known: set[int]
) -> Iterator[Rebinding]:
    node = record.node
    if node.holder is not None:
        return  # Attributes of a tensor are compared with the tensor.
    was = {_key_id(k): (k, v) for k, v in record.swapped}
    real = {_key_id(k): e for (k, _), e in zip(record.swapped, record.real, strict=True)}
    now = {_key_id(k): (k, v) for k, v in node.entries()}
    for name in [*was, *(name for name in now if name not in was)]:
        old = was[name][1] if name in was else None
        key, new = now.get(name, (None, None))
        if new is old and (name in now) == (name in was):
            continue
        if name in was:
            key, before = real[name]
        else:
            before = None
            key = _real_key(fakes, key)
        tensors = list(tensors_in(new, known)) if name in now else []
        held = bool(tensors) or any(True for _ in tensors_in(old, known))
        if not held and node.role != "optimizer_state":
            continue  # A Python value: the snapshot's business.
        path = node.entry_path(key, reach.names)
        if node.role == "parameter":
            raise CaptureError(
                f"{path} is replaced by another parameter inside the step",
                todo="write into the parameter in place, under torch.no_grad()",
            )
        kind: Kind = "gone" if name not in now else "rebound" if name in was else "new"
        yield Rebinding(
            path=path,
            role=node.role,
            kind=kind,
            container=node.container,
            key=key,
            before=before if isinstance(before, torch.Tensor) else None,
            after=new if isinstance(new, torch.Tensor) else None,
            value=new,
            tensors=[(path + rest, tensor) for rest, tensor in tensors],
            form=node.form,
        )


def _compare_tensor(reach: Reach, pair: Pair) -> Iterator[Rebinding]:
    """Gradient, `requires_grad` and Python attributes of one tensor."""
    real, fake = pair.real, pair.fake
    name = reach.name(real)
    if fake.requires_grad != pair.requires_grad and fake.is_leaf:
        yield Rebinding(
            *(f"{name}.requires_grad", "attribute", "flag", real, "requires_grad", None, None),
            value=fake.requires_grad,
        )
    grad = fake.grad if fake.is_leaf else None
    if grad is not pair.grad:
        yield Rebinding(
            path=f"{name}.grad",
            role="grad",
            kind="gone" if grad is None else "new" if pair.grad is None else "rebound",
            container=real,
            key="grad",
            before=real.grad,
            after=grad,
            value=grad,
            tensors=[] if grad is None else [(f"{name}.grad", grad)],
        )
    attributes = {k: v for k, v in vars(fake).items() if k not in pair.inner}
    for key in {**pair.attributes, **attributes}:
        if attributes.get(key) is not pair.attributes.get(key):
            value = attributes.get(key)
            path = f"{name}.{key}"
            yield Rebinding(
                *(path, "attribute", "rebound" if key in attributes else "gone", real, key),
                before=None,
                after=value if isinstance(value, torch.Tensor) else None,
                value=value,
                tensors=[(path + rest, t) for rest, t in tensors_in(value, set())],
            )


def _check_storages(fakes: Fakes) -> None:
    for pair in fakes.pairs:
        path = pair.place.path if pair.place else "a gradient"
        if storage_id(pair.fake) != pair.storage._cdata:
            raise CaptureError(
                f"{path} is given another storage inside the step (`.data =` or `set_`)",
                todo="write into the tensor in place, under torch.no_grad(): p.copy_(new)",
            )
        if pair.storage.nbytes() != pair.storage_bytes:
            raise CaptureError(
                f"the storage of {path} is resized inside the step, from {pair.storage_bytes} to "
                f"{pair.storage.nbytes()} bytes",
                todo="give the tensor its final size before the step is compiled",
            )
        if geometry_of(pair.fake) != pair.geometry:
            raise CaptureError(
                f"{path} gets another shape or other strides inside the step",
                todo="make a view instead of changing the tensor's own shape in place",
            )


def _real_key(fakes: Fakes, key: Any) -> Any:
    if isinstance(key, torch.Tensor):
        pair = fakes.pair_of_fake(key)
        if pair is None:
            raise CaptureError(
                "a dict is given a key that is a tensor made inside the step",
                todo="use keys that exist before the step, such as parameters or names",
            )
        return pair.real
    return key


def _key_id(key: Any) -> Any:
    # Tensors as keys are compared by identity: their == is elementwise.
    return ("tensor", id(key)) if isinstance(key, torch.Tensor) else ("key", key)
