"""Parts of memory that numpy, a file or another tensor has too: read, written, refilled between."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from kit import Do, add, case
from torch import Tensor, nn
from worlds import CLASSES, FEATURES, Bench, adam, sgd

CALLS = 9
ROWS = 40

Arrays = dict[str, Any]


def rows(seed: int = 3, count: int = ROWS) -> Any:
    """An array of `count` rows."""
    drawn = np.random.default_rng(seed).standard_normal((count, FEATURES))
    return drawn.astype(np.float32)


def place(most: int = ROWS - 8) -> int:
    """A drawn one."""
    return random.randrange(most)


def window(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    i = place()
    return b.loss(t[i : i + 6], y)


def shuffled(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    return b.loss(torch.stack([t[place()] for _ in range(6)]), y)


def all_of_it(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    i = place()
    return b.loss(t[i : i + 6], y) + b.model(t).mean() + t[i].sum() * b.model[0].bias.sum()


def columns(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    return b.loss(x * t[:6, place(8)].unsqueeze(1), y) + (t.t()[place(8)] * t[:, 1]).sum()


def other_part_refilled(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    first = b.loss(t[:6], y)
    a[20:26] = a[:6] * 2 + place()
    return first + b.loss(t[20:26], y)


def same_part_refilled(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    total = x.sum() * 0
    for _ in range(3):
        np.copyto(a[:6], rows(place())[:6])
        total = total + b.loss(t[:6], y)
    return total


def read_refilled_then_another_written(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    i = place(10)
    before = b.model(t[i : i + 3].clone()).sum()
    a[i] = place()  # What was read keeps its numbers, and the array these.
    t[20 + i].mul_(0.5).add_(x[0])
    return before + b.loss(t[i : i + 6] * 0.1, y) + float(a[20 + i].sum())


def written_row_read_by_numpy(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    i = place()
    t[i : i + 2] = x[:2]
    b.log.append(float(a[i : i + 3].sum()))
    a[i + 1] += 1
    return b.loss(t[i : i + 6], y)


def two_rows_at_once(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    i, k = place(16), 16 + place(16)
    torch._foreach_mul_([t[i], t[k]], [0.5, 1.5])
    b.log.append(a[[i, k]].sum())
    torch._foreach_add_([t[i : i + 2], t[k : k + 2]], [x[:2], x[2:4]])
    return b.loss(t[i : i + 6], y) + b.model(t[k]).sum()


def overlapping(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    i = place(20)
    first = b.loss(t[i : i + 6].clone(), y)
    t[i + 2 : i + 8] *= 0.9
    return first + b.loss(t[i + 4 : i + 10], y) + b.model(t[i : i + 3]).sum()


def other_views_of_the_array(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    i = place(20)
    left = torch.from_numpy(a[i : i + 6])
    right = torch.from_numpy(a[i + 3 : i + 9])
    first = b.loss(left.clone(), y)
    right.add_(0.25)
    return first + b.loss(left, y) + b.loss(t[i + 5 : i + 11], y)


def strided_by_numpy(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    i = place(4)
    every = torch.from_numpy(a[i : i + 18 : 3])
    every[2] = x[0]
    return b.loss(every, y) + b.loss(t[i : i + 18 : 3], y)


def empty_and_single(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    i = place()
    nothing = t[i:i]
    t[i, 3] = x[0, 0]
    return b.loss(torch.cat([nothing, t[i : i + 6]]), y) + t[i, 3] * b.model[0].bias.sum()


def other_type(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    i = place()
    bits = t[i : i + 2].view(torch.int32)
    bits &= 0x7FFFFFFF
    b.log.append(int((a[i : i + 2] < 0).sum()))
    return b.loss(t[i : i + 6], y)


def with_a_gradient(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    i = place()
    t[i] = b.model(t[i : i + 1]).detach().repeat(1, 2)[0]
    return b.loss(t[i : i + 6].clone().requires_grad_(), y)


def by_index(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    at = torch.randperm(ROWS)[:6]
    t.index_add_(0, at[:2], x[:2])
    return b.loss(t[at], y) + float(a[int(at[0])].sum())


def written_behind_numpy(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    i = place()
    before = t[i : i + 6] * 2
    a[i : i + 6] *= 0.7
    t[i : i + 6].mul_(0.9)
    return b.loss(before, y) + b.model(t[i : i + 3]).sum()


def two_storages_in_one_list(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    i = place()
    other = torch.from_numpy(a[i + 1 : i + 5])
    torch._foreach_add_([t[i : i + 3], other[:3]], 0.5)
    b.log.append(float(a[i + 1].sum()))
    return b.loss(t[i : i + 6], y)


def copied_over_itself(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    i = place()
    torch.from_numpy(a[i + 1 : i + 7])[:4].copy_(t[i + 8 : i + 12])
    torch.add(t[i : i + 2], 1.0, out=torch.from_numpy(a[i : i + 2]))
    return b.loss(t[i : i + 6], y)


def refilled_with_the_same_or_not(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    total = x.sum() * 0
    for _ in range(3):
        a[:6] = random.randrange(2)
        total = total + b.loss(x * t[:6], y)
    return total


def one_element(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    scale = torch.from_numpy(a[3, 3:4].reshape(()))
    a[3, 3] *= 0.9
    scale.add_(0.01)
    return b.loss(x * scale, y)


def results_go_into_the_array(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    i = place()
    out = b.model(t[i : i + 6])
    a[i : i + 6, :4] = out.detach().numpy()
    return F.cross_entropy(out, y) + b.model(t[i : i + 6]).pow(2).mean()


def drawn_into_it(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    i = place()
    t[i : i + 2].normal_()
    a[i + 3] = np.random.standard_normal(FEATURES)  # noqa: NPY002
    return b.loss(t[i : i + 6], y)


def out_given(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    i = place()
    torch.add(x[:2], x[2:4], out=t[i : i + 2])
    np.add(a[i], 1, out=a[i])
    return b.loss(t[i : i + 6], y)


BODIES: list[Callable[..., Tensor]] = [
    window,
    shuffled,
    all_of_it,
    columns,
    other_part_refilled,
    same_part_refilled,
    read_refilled_then_another_written,
    written_row_read_by_numpy,
    two_rows_at_once,
    overlapping,
    other_views_of_the_array,
    strided_by_numpy,
    empty_and_single,
    other_type,
    with_a_gradient,
    by_index,
    written_behind_numpy,
    two_storages_in_one_list,
    copied_over_itself,
    refilled_with_the_same_or_not,
    one_element,
    results_go_into_the_array,
    drawn_into_it,
    out_given,
]


def of_array() -> tuple[Any, Tensor]:
    array = rows()
    return array, torch.from_numpy(array)


def of_tensor() -> tuple[Any, Tensor]:
    tensor = torch.from_numpy(rows()).clone()
    return tensor.numpy(), tensor


def of_file() -> tuple[Any, Tensor]:
    path = Path(tempfile.mkdtemp()) / "rows"
    array = np.memmap(path, np.float32, "w+", shape=(ROWS, FEATURES))
    array[:] = rows()
    return array, torch.from_numpy(array)


def of_shared_memory() -> tuple[Any, Tensor]:
    tensor = torch.from_numpy(rows()).clone().share_memory_()
    return tensor.numpy(), tensor


def of_part() -> tuple[Any, Tensor]:
    array = rows(count=ROWS + 20)[11:]
    return array, torch.from_numpy(array)[1 : ROWS + 1]


def of_large() -> tuple[Any, Tensor]:
    array = rows(count=50_000)  # Its copy is mapped page by page.
    return array[30_000:], torch.from_numpy(array)[30_000 : 30_000 + ROWS]


KINDS: dict[str, Callable[[], tuple[Any, Tensor]]] = {
    "an_array": of_array,
    "a_tensor": of_tensor,
    "a_file": of_file,
    "shared_memory": of_shared_memory,
    "a_part": of_part,
    "a_large_array": of_large,
}


def world(body: Callable[..., Tensor], kind: Callable[[], tuple[Any, Tensor]]) -> Any:
    """A case that trains on what `body` makes of an array and the tensor over its memory."""

    def build() -> Any:
        b = Bench(make=sgd, count=CALLS)
        array, tensor = kind()
        if kind is of_part:
            array = array[1:]

        def step(x: Tensor, y: Tensor) -> Tensor:
            return b.update(body(b, x, y, array, tensor))

        return b.world(step, tensor)

    return build


for number, body in enumerate(BODIES):
    kinds = list(KINDS)
    for name in dict.fromkeys(["an_array", "a_large_array", kinds[number % len(kinds)]]):
        add("lent", f"{body.__name__}_of_{name}", world(body, KINDS[name]))


@case("lent")
def checkpoint_is_mapped() -> Any:
    path = Path(tempfile.mkdtemp()) / "data.pt"
    torch.save({"rows": torch.from_numpy(rows()), "more": torch.arange(6.0)}, path)
    data = torch.load(path, mmap=True)
    b = Bench(make=adam, count=CALLS)

    def step(x: Tensor, y: Tensor) -> Tensor:
        i = place()
        data["rows"][i].mul_(0.5)  # Of this process alone.
        return b.update(b.loss(data["rows"][i : i + 6] + data["more"][place(5)], y))

    return b.world(step, data)


@case("lent")
def model_keeps_its_data() -> Any:
    array = rows()

    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("data", torch.from_numpy(array), persistent=False)
            self.layer = nn.Linear(FEATURES, 4)

        def forward(self, i: int) -> Tensor:
            self.data[i + 7] += 0.5
            return self.layer(self.data[i : i + 6])

    model = Keeps()
    opt = sgd(model.parameters())

    def step(y: Tensor) -> Tensor:
        opt.zero_grad()
        loss = F.cross_entropy(model(place(30)), y)
        loss.backward()
        opt.step()
        return loss + float(array[8].sum())

    return step, [(torch.randint(4, (6,)),) for _ in range(CALLS)], lambda: (model, opt, array)


@case("lent")
def array_is_another_one_later() -> Any:
    b = Bench(make=sgd, count=12)
    held = {"array": rows()}

    def step(x: Tensor, y: Tensor) -> Tensor:
        t = torch.from_numpy(held["array"])
        i = place()
        t[i] *= 0.9
        return b.update(b.loss(t[i : i + 6], y) + b.model(t[place()]).sum())

    def change(seed: int, count: int) -> Do:
        return Do(lambda: held.update(array=rows(seed, count)))

    calls = [*b.calls[:4], change(4, ROWS), *b.calls[4:8], change(5, 4000), *b.calls[8:]]
    return b.world(step, held, calls=calls)


@case("lent")
def batch_in_an_array_that_is_refilled_for_each_call() -> Any:
    b = Bench(make=sgd, count=CALLS)
    array = rows(count=6)
    x = torch.from_numpy(array)
    calls: list[Any] = []
    for i, (_, y) in enumerate(b.calls):
        calls += [Do(lambda i=i: np.copyto(array, rows(i, 6))), (x, y)]
    return b.world(b.usual, calls=calls)


@case("lent")
def arrays_of_a_weight_that_programs_of_slices_are_made_around() -> Any:
    """Where the arena would have to grow all programs are made anew, of segments known before."""
    b, seen = Bench(), []
    data, classes = torch.randn(200, FEATURES), torch.randint(0, CLASSES, (200,))

    def batch(at: int, count: int) -> Any:
        return data[at : at + count], classes[at : at + count]

    look = Do(lambda: seen.append(b.model[0].weight.detach().numpy()))
    later = [batch(50, 6), batch(30, 64), batch(60, 64), batch(44, 6), batch(100, 96)]
    return b.world(b.usual, seen, calls=[batch(40, 6), look, *later, look, batch(10, 96)])
