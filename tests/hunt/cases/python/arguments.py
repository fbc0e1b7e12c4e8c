"""Arguments: their gradients, changes in place, aliases, containers, keywords, wrong ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from kit import Call, Do, add, case
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from worlds import Bench, batches


@case("argument gradient")
def argument_requires_grad_set_inside() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x.requires_grad_(True)
        b.loss(x, y).backward()
        adversarial = (x + 0.1 * x.grad.sign()).detach()
        return b.update(b.loss(adversarial, y)), x.grad

    return step, b.calls, lambda: (b.model, b.opt)


@case("argument gradient")
def argument_attacked_in_several_steps() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        moved = x.clone()
        for _ in range(3):
            moved.requires_grad_(True)
            (g,) = torch.autograd.grad(b.loss(moved, y), moved)
            moved = (moved.detach() + 0.05 * g.sign()).clamp(x - 0.1, x + 0.1)
        return b.update(b.loss(moved, y))

    return b.world(step)


@case("argument gradient")
def argument_perturbation_kept() -> Any:
    b = Bench()
    delta = torch.zeros(6, 8, requires_grad=True)

    def step(x: Tensor, y: Tensor) -> Tensor:
        b.opt.zero_grad()
        loss = b.loss(x + delta, y)
        loss.backward()
        delta.data = (delta + 0.1 * delta.grad.sign()).clamp(-0.2, 0.2).detach()
        delta.grad.zero_()
        b.opt.step()
        return loss

    return b.world(step, delta)


@case("argument gradient")
def argument_that_requires_grad() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.update(b.loss(x, y))
        b.log.append(x.grad.clone())
        return loss

    return b.world(step, calls=[(x.requires_grad_(), y) for x, y in b.calls])


@case("argument")
def argument_changed_in_place() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2).add_(1)
        x[0] = 0
        y.fill_(1)
        return b.usual(x, y)

    return b.world(step, [t for call in b.calls for t in call])


@case("argument")
def argument_clamped_under_no_grad() -> Any:
    b, images = Bench(), torch.randn(6, 8)

    def step(x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad():
            x.add_(0.1 * b.model(x).mean()).clamp_(-1, 1)
        return b.usual(x, y)

    return b.world(step, images, calls=[(images, y) for _, y in b.calls])


@case("argument")
def argument_refilled_by_the_caller() -> Any:
    b, x, y = Bench(), torch.zeros(6, 8), torch.zeros(6, dtype=torch.long)
    calls: list[Any] = []
    for new_x, new_y in b.calls:
        calls += [Do(lambda a=new_x, c=new_y: (x.copy_(a), y.copy_(c))), (x, y)]
    return b.world(b.usual, x, calls=calls)


@case("argument")
def argument_twice() -> Any:
    b = Bench()

    def step(x: Tensor, z: Tensor, y: Tensor) -> Tensor:
        same = 2.0 if x is z else 1.0
        return b.update(F.cross_entropy(b.model(x) + b.model(z), y) * same)

    one, two, three, four, _ = [(x, x, y) for x, y in b.calls]
    other = (three[0], one[0], three[2])
    return b.world(step, calls=[one, two, other, four])


@case("argument")
def arguments_that_overlap() -> Any:
    b = Bench()

    def step(x: Tensor, z: Tensor, y: Tensor) -> Tensor:
        z.mul_(0.5)
        return b.update(F.cross_entropy(b.model(x), y))

    return b.world(step, calls=[(x, x[:2], y) for x, y in b.calls])


@case("argument")
def argument_is_a_parameter() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        return b.update(b.loss(x, y) + w.square().mean())

    return b.world(step, calls=[(*batch, b.model[0].weight) for batch in b.calls])


@case("argument")
def argument_is_the_model() -> Any:
    b = Bench()

    def step(model: nn.Module, opt: Any, x: Tensor, y: Tensor) -> Tensor:
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss

    return b.world(step, calls=[(b.model, b.opt, *batch) for batch in b.calls])


@case("argument")
def arguments_nested() -> Any:
    b = Bench()

    def step(batch: dict[str, Any]) -> Tensor:
        x = batch["views"][0] + batch["views"][1]
        extra = batch.get("extra")
        out = b.model(x) if extra is None else b.model(x) + extra
        return b.update(F.cross_entropy(out, batch["target"]["y"]))

    calls = [
        ({"views": [x, x * 2], "target": {"y": y}, "extra": x[:, :4] if k == 2 else None},)
        for k, (x, y) in enumerate(b.calls)
    ]
    return b.world(step, calls=calls)


@dataclasses.dataclass
class Batch:
    """A batch as a dataclass."""

    x: Tensor
    y: Tensor
    weight: float = 1.0


class Named(NamedTuple):
    """A batch as a named tuple."""

    x: Tensor
    y: Tensor


class Own:
    """A batch class of the user's own."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def to(self, device: str) -> Own:
        return Own(self.x.to(device), self.y.to(device))


def packed_batch(make: Any) -> Any:
    def build() -> Any:
        b = Bench()

        def step(batch: Any) -> Tensor:
            batch = batch.to("cpu") if isinstance(batch, Own) else batch
            return b.update(b.loss(batch.x, batch.y) * getattr(batch, "weight", 1.0))

        return b.world(step, calls=[(make(x, y, k),) for k, (x, y) in enumerate(b.calls)])

    return build


add("argument", "argument_dataclass", packed_batch(lambda x, y, k: Batch(x, y, 1.0 + k)))
add("argument", "argument_named_tuple", packed_batch(lambda x, y, k: Named(x, y)))
add("argument", "argument_own_class", packed_batch(lambda x, y, k: Own(x, y)))


@case("argument")
def argument_iterator() -> Any:
    b = Bench()
    data: Iterator[Any] = iter(batches(8))

    def step(batches: Iterator[Any]) -> Tensor:
        return b.usual(*next(batches))

    return b.world(step, calls=[(data,)] * 5)


@case("argument")
def loader_inside_the_step() -> Any:
    b = Bench()
    data = TensorDataset(*batches(1, rows=12)[0])
    loader = DataLoader(data, batch_size=4, shuffle=True)

    def step(epoch: int) -> float:
        return sum(b.usual(x, y).item() for x, y in loader) / len(loader)

    return b.world(step, calls=[(k,) for k in range(4)])


@case("argument")
def argument_only_by_keyword() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.usual(x, y)

    calls = [Call(x=x, y=y, example=(x, y)) for x, y in b.calls]
    return b.world(step, calls=calls)


@case("argument")
def arguments_as_stars() -> Any:
    b = Bench()

    def step(*tensors: Tensor, **options: Any) -> Tensor:
        x, y = tensors
        return b.update(b.loss(x, y) * options.get("scale", 1.0))

    one, two, three, four, five = b.calls
    return b.world(step, calls=[one, two, Call(*three, scale=2.0), four, Call(*five, scale=3.0)])


@case("argument")
def argument_of_words() -> Any:
    b, words = Bench(nn.EmbeddingBag(20, 4)), {}

    def step(sentences: list[str], y: Tensor) -> Tensor:
        rows = [[words.setdefault(w, len(words)) for w in s.split()] for s in sentences]
        offsets = torch.tensor([0, *np.cumsum([len(r) for r in rows])[:-1]])
        return b.update(
            F.cross_entropy(b.model(torch.tensor([i for r in rows for i in r]), offsets), y)
        )

    lines = ["a b c", "c d", "e a f g", "b", "h i a"]
    calls = [([lines[k], lines[k - 1]], torch.tensor([k % 4, 0])) for k in range(5)]
    return b.world(step, words, calls=calls)


@case("argument")
def wrong_dtype_at_the_second_call() -> Any:
    b = Bench()
    one, (x, y), three, four, _ = b.calls
    wrong = Call(x.double(), y, raises=RuntimeError)
    return b.world(b.usual, calls=[one, wrong, three, four])


@case("argument")
def wrong_shape_at_the_second_call() -> Any:
    b = Bench()
    one, (x, y), three, four, _ = b.calls
    wrong = Call(x[:, :3], y, raises=RuntimeError)
    return b.world(b.usual, calls=[one, wrong, three, four])


@case("argument")
def wrong_label_at_the_second_call() -> Any:
    b = Bench()
    one, (x, y), three, four, _ = b.calls
    wrong = Call(x, y + 9, raises=IndexError)
    return b.world(b.usual, calls=[one, wrong, three, four])


@case("argument")
def missing_argument_at_the_second_call() -> Any:
    b = Bench()
    one, (x, _), three, four, _ = b.calls
    return b.world(b.usual, calls=[one, Call(x, raises=TypeError), three, four])
