"""Storages and pointers that a step has taken, and looks at later; what dies in its turn."""

from __future__ import annotations

import ctypes
import functools
import io
import mmap
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from kit import Do, add, case
from torch import Tensor
from worlds import Bench, stepping

FLOAT, SIZE = ctypes.c_float, 24  # Elements of each tensor at the least.


def _floats(at: int) -> Any:
    return (FLOAT * SIZE).from_address(at)


def _pointer(at: int) -> Any:
    return ctypes.cast(at, ctypes.POINTER(FLOAT))


# What C code could be given of a tensor, early in a step.
POINTERS: dict[str, Callable[[Tensor], Any]] = {
    "array": lambda t: _floats(t.data_ptr()),
    "pointer": lambda t: _pointer(t.data_ptr()),
    "void": lambda t: ctypes.cast(ctypes.c_void_p(t.data_ptr()), ctypes.POINTER(FLOAT)),
    "numpy": lambda t: np.ctypeslib.as_array(_pointer(t.data_ptr()), shape=(SIZE,)),
    "memoryview": lambda t: memoryview(_floats(t.data_ptr())).cast("B").cast("f"),
    "tensor": lambda t: torch.frombuffer(_floats(t.data_ptr()), dtype=torch.float32),
    "of_storage": lambda t: _floats(t.untyped_storage().data_ptr()),
    "pointer_of_storage": lambda t: _pointer(t.untyped_storage().data_ptr()),
    "tensor_of_storage": lambda t: torch.frombuffer(
        _floats(t.untyped_storage().data_ptr()), dtype=torch.float32
    ),
    "of_typed_storage": lambda t: _floats(t.storage().data_ptr()),
}


def _saved(storage: Any) -> Any:
    file = io.BytesIO()
    torch.save(storage, file)
    file.seek(0)
    return torch.load(file, weights_only=False).tolist()[:16]


def _written(storage: Any) -> list[float]:
    with tempfile.TemporaryFile() as file:
        storage._write_file(file, False, False, 1)
        file.seek(0)
        return np.frombuffer(file.read(), np.float32).tolist()[:4]


# What may be done with a storage, late in a step.
USES: dict[str, Callable[[Any], Any]] = {
    "item": lambda s: s[2],
    "list": lambda s: s.tolist()[:16],
    "clone": lambda s: s.clone().tolist()[:16],
    "saved": _saved,
    "written": _written,
    "read_by_pointer": lambda s: _floats(s.data_ptr())[:4],
    "written_by_pointer": lambda s: _floats(s.data_ptr()).__setitem__(1, 0.125),
    "set_item": lambda s: s.__setitem__(2, 7),
    "filled": lambda s: s.fill_(0) and None,
    "copied": lambda s: s.copy_(torch.UntypedStorage(s.nbytes()).fill_(0)) and None,
    "swapped": lambda s: s.byteswap(torch.float32),
}
# These are refused where they come, before anything differs.
MOVES: dict[str, Callable[[Any], Any]] = {
    "shared": lambda s: s.share_memory_() and None,
    "resized": lambda s: s.resize_(s.nbytes()) and None,
}


def _train(b: Bench, x: Tensor, y: Tensor, where: str, take: Any, use: Any) -> Tensor:
    """Takes something of a tensor, has operators write that, and uses it."""
    hidden = b.model[0](x)
    of = {"weight": b.model[0].weight, "activation": hidden}.get(where)
    taken = None if of is None else take(of.detach())
    loss = F.cross_entropy(b.model[2](b.model[1](hidden)), y)
    b.opt.zero_grad()
    loss.backward()
    if where == "gradient":
        taken = take(b.model[0].weight.grad)
        torch.nn.utils.clip_grad_norm_(b.model.parameters(), 0.01)
        b.log.append(use(taken))
    b.opt.step()
    if where == "activation":
        hidden.detach().mul_(0.5)
    if where != "gradient":
        b.log.append(use(taken))
    return loss + hidden.detach().sum()


def _read(pointer: Any) -> list[float]:
    return [float(pointer[i]) for i in range(4)]


def _write(pointer: Any) -> None:
    for i in range(3):
        pointer[i] = float(pointer[i]) * 0.5


def _world(where: str, take: Any, use: Any) -> Any:
    b = Bench()
    return b.world(lambda x, y: _train(b, x, y, where, take, use))


for _where in ("weight", "activation", "gradient"):
    for _name, _take in POINTERS.items():
        for _use in (_read, _write):
            add(
                "address",
                f"pointer_{_name}_to_{_where}{_use.__name__}",
                functools.partial(_world, _where, _take, _use),
            )
    for _name, _late in (USES | MOVES if _where == "gradient" else USES).items():
        add(
            "address",
            f"storage_{_name}_of_{_where}",
            functools.partial(_world, _where, lambda t: t.untyped_storage(), _late),
        )


def _kept(use: Callable[[Any], Any], *, is_between: bool) -> Any:
    b = Bench()
    storage = b.model[0].weight.untyped_storage()

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        if not is_between:
            b.log.append(use(storage))
        return loss

    calls: list[Any] = []
    for call in b.calls:
        calls += [call, Do(lambda: b.log.append(use(storage)))] if is_between else [call]
    return b.world(step, calls=calls)


for _name in ("item", "list", "read_by_pointer", "written_by_pointer", "set_item", "filled"):
    for _is_between in (False, True):
        add(
            "address",
            f"storage_kept_{_name}_{'between' if _is_between else 'within'}_calls",
            functools.partial(_kept, USES[_name], is_between=_is_between),
        )


class Mourned:
    """Says when it ends."""

    def __init__(self, log: list[Any], name: str) -> None:
        self.log, self.name = log, name

    def __del__(self) -> None:
        self.log.append(f"{self.name} ended")


LOOKS: dict[str, Callable[[Tensor], Any]] = {
    "nothing": lambda t: None,
    "item": lambda t: t.sum().item(),
    "array": lambda t: t.detach().numpy(),
    "address": lambda t: t.data_ptr(),
    "branch": lambda t: bool(t.sum() > 0),
}


def _mourning(look: Callable[[Tensor], Any]) -> Any:
    b = Bench()
    kept: list[Any] = []

    def forward(x: Tensor, given: Any) -> Tensor:
        own = Mourned(b.log, "own")
        out: Tensor = b.model(x)
        kept.append(look(out))
        b.log.append("looked")
        del own
        b.log.append("deleted")
        return out * (0.5 if kept[-1] is True else 1.0)

    def step(x: Tensor, y: Tensor) -> Tensor:
        out = forward(x, Mourned(b.log, "given"))
        b.log.append("back")
        loss = b.update(F.cross_entropy(out, y))
        kept.append(look(b.model[0].weight))
        b.log.append("updated")
        kept.clear()
        return loss

    return b.world(step)


for _name, _look in LOOKS.items():
    add("lifetime", f"ends_in_its_turn_behind_{_name}", functools.partial(_mourning, _look))


@case("lifetime")
def ends_in_its_turn_where_plans_are_made() -> Any:
    """Branches that no preview has seen: the arena grows for their programs."""
    b = Bench()

    def clip(given: Any) -> None:
        for p in b.model.parameters():
            norm = p.grad.norm().item()
            b.log.append(norm)
            if norm > 0.3:
                p.grad.mul_(0.3 / norm)
            else:
                p.grad.add_(1e-3)
            p.sub_(0.1 * p.grad)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        b.opt.zero_grad()
        loss.backward()
        with torch.no_grad():
            clip(Mourned(b.log, "given"))
        b.log.append("back")
        return loss.detach()

    return b.world(step)


def _taken(method: str, use: Callable[[Any], Any]) -> Any:
    b = Bench()
    taken = getattr(b.model[0].weight.untyped_storage(), method)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        b.log.append(use(taken))
        return loss

    return b.world(step)


add("address", "storage_method_item", functools.partial(_taken, "__getitem__", lambda f: f(2)))
add(
    "address",
    "storage_method_data_ptr",
    functools.partial(_taken, "data_ptr", lambda f: _floats(f())[:4]),
)


def _takes_in_a_call(take: Callable[[Tensor], Any], use: Callable[[Any], Any], which: int) -> Any:
    """Takes a pointer in one call, or before all, and keeps it where Python has no number."""
    b = Bench()
    kept: list[Any] = [take(b.model[0].weight.detach())] if which == 0 else []

    def step(x: Tensor, y: Tensor) -> Tensor:
        if len(b.log) == which - 1:
            kept.append(take(b.model[0].weight.detach()))
        loss = b.usual(x, y)
        b.log.append(use(kept[0]) if kept else None)
        return loss

    return b.world(step)


for _name, _take in POINTERS.items():
    for _use in (_read, _write):
        for _which, _when in enumerate(("compile", "call_1", "call_3")):
            add(
                "address",
                f"pointer_{_name}_kept_from_{_when}{_use.__name__}",
                functools.partial(_takes_in_a_call, _take, _use, _which + _which // 2),
            )


_FOLDERS: list[Any] = []  # They last as long as the process.


def _loaded(load: Callable[[Any], Any], which: int) -> Any:
    """Takes weights up again from a file that is mapped."""
    b = Bench()
    _FOLDERS.append(tempfile.TemporaryDirectory())
    path = f"{_FOLDERS[-1].name}/best.pt"
    torch.save(b.model.state_dict(), path)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        b.log.append(loss.item())
        if len(b.log) in (which, 4):
            b.model.load_state_dict(load(path))
        return loss

    return b.world(step)


for _which in (1, 3):
    add(
        "array",
        f"weights_from_a_mapped_file_in_call_{_which}",
        functools.partial(_loaded, functools.partial(torch.load, mmap=True), _which),
    )


def _slice(storage: Any) -> Any:
    return storage[0:32]


def _over(storage: Any) -> Tensor:
    made: Tensor = torch.empty(0).set_(storage)
    return made


def _sliced(*, is_early: bool, use: Callable[[Tensor], Any]) -> Any:
    """A tensor over a slice of a weight's storage, made before compile or in the step."""
    b = Bench()
    weight = b.model[0].weight
    kept = _over(_slice(weight.untyped_storage())) if is_early else None

    def step(x: Tensor, y: Tensor) -> Tensor:
        part = _over(_slice(weight.untyped_storage())) if kept is None else kept
        loss = b.usual(x, y)
        b.log.append(use(part))
        return loss

    return b.world(step)


for _is_early in (False, True):
    for _name, _look in {
        "read": lambda t: t.sum().item(),
        "written": lambda t: t.mul_(0.5) is None,
        "listed": lambda t: t.tolist(),
    }.items():
        add(
            "array",
            f"slice_of_a_storage_{_name}_{'kept' if _is_early else 'made'}",
            functools.partial(_sliced, is_early=_is_early, use=_look),
        )


def _over_a_pointer(b: Bench, x: Tensor, y: Tensor, mark: Any) -> Tensor:
    t = torch.frombuffer((FLOAT * 64).from_address(b.model[0].weight.data_ptr()), dtype=torch.float)
    loss = b.usual(x, y)
    mark(t)
    return loss


for _name, _mark in {
    "written": lambda t: t.mul_(0.9),
    "cloned": lambda t: t.mul_(t.clone()),
    "asked": lambda t: t.mul_(0.5 if t.sum().item() > 0 else 0.25),
}.items():
    add(
        "array",
        f"tensor_over_a_pointer_{_name}",
        stepping(functools.partial(_over_a_pointer, mark=_mark)),
    )


@case("hidden")
def locals_that_the_user_has_changed() -> Any:
    b = Bench()
    kept: list[Any] = []

    def step(x: Tensor, y: Tensor) -> Tensor:
        lr, names = 0.1, locals()
        names["lr"] = 0.5
        loss = b.usual(x, y)
        kept[:] = [b.model[0].weight.detach().numpy()]
        b.log.append(loss.item())
        exec("b.log.append(lr)", {"b": b}, names)
        return loss * lr

    return b.world(step)


@case("hidden")
def counters_in_views_of_buffers() -> Any:
    b = Bench()
    held = mmap.mmap(-1, 64)
    views = [memoryview(held), io.BytesIO(bytes(8)).getbuffer(), memoryview(bytearray(8))]
    counter = ctypes.pointer(ctypes.c_long(0))
    rows = np.zeros(3, dtype=[("n", np.int64)])[1]
    flat = np.zeros(4).flat

    def step(x: Tensor, y: Tensor) -> Tensor:
        for view in views:
            view[0] += 1
        counter[0] += 1
        rows["n"] += 1
        flat[1] += 1
        b.log.append([*(view[0] for view in views), counter[0], int(rows["n"]), float(flat[1])])
        return b.usual(x, y)

    return b.world(step)
