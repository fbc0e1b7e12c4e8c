"""What steps return, what kind of callable they are, and what they raise."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import math
import traceback
from collections import OrderedDict
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from kit import Call, add, case
from torch import Tensor
from worlds import Bench, sgd, stepping


@dataclasses.dataclass
class Result:
    """What a step returns."""

    loss: Tensor
    accuracy: float
    note: str = ""


class Pair(NamedTuple):
    """What a step returns."""

    loss: Tensor
    logits: Tensor


def returning(make: Any) -> Any:
    """A case that returns `make(bench, loss, logits, x)` after the update."""

    def body(b: Bench, x: Tensor, y: Tensor) -> Any:
        out = b.model(x)
        loss = b.update(F.cross_entropy(out, y))
        return make(b, loss, out, x)

    return stepping(body)


RETURNS: dict[str, Any] = {
    "none": lambda b, loss, out, x: None,
    "dict": lambda b, loss, out, x: {"loss": loss, "out": out, 3: [out[0], "x", None]},
    "ordered_dict": lambda b, loss, out, x: OrderedDict(z=loss, a=loss * 2),
    "dataclass": lambda b, loss, out, x: Result(loss, (out.argmax(1) == 0).float().mean().item()),
    "named_tuple": lambda b, loss, out, x: Pair(loss, out),
    "nested": lambda b, loss, out, x: ((loss, [out, (x, {"k": (out,)})]), [], {}, ()),
    "weight": lambda b, loss, out, x: b.model[0].weight,
    "weight_data_and_copy": lambda b, loss, out, x: (b.model[2].bias.data, b.model[2].bias.clone()),
    "argument": lambda b, loss, out, x: x,
    "same_tensor_twice": lambda b, loss, out, x: [loss, loss, out, out],
    "views": lambda b, loss, out, x: (out, out[1:], out.t(), out[0, 0], out.view(-1)),
    "expanded": lambda b, loss, out, x: (loss.expand(3), out[:1].expand(5, 4)),
    "number": lambda b, loss, out, x: loss.item(),
    "numbers": lambda b, loss, out, x: [loss.item(), int(out.argmax()), bool(out[0, 0] > 0), 3],
    "text": lambda b, loss, out, x: f"{loss.item():.6f}",
    "numpy": lambda b, loss, out, x: (loss.detach().numpy(), out.detach().numpy()),
    "list_of_rows": lambda b, loss, out, x: list(out),
    "tolist": lambda b, loss, out, x: out.tolist(),
    "set_and_range": lambda b, loss, out, x: ({1, 2}, range(3), slice(1, 2), torch.float32),
    "boolean_and_integers": lambda b, loss, out, x: (out > 0, out.argmax(1), out.sort(1)),
    "shape": lambda b, loss, out, x: (out.shape, out.dtype, out.device),
    "accumulated_list": lambda b, loss, out, x: b.log.append(loss.item()) or b.log,
    "state_dict": lambda b, loss, out, x: b.model.state_dict(),
    "model": lambda b, loss, out, x: b.model,
    "transposed_copy": lambda b, loss, out, x: out.detach().t().clone(),
    "nan_and_inf": lambda b, loss, out, x: (loss * math.nan, out / 0, loss * -0.0),
    "complex_and_low": lambda b, loss, out, x: (torch.fft.fft(out), out.bfloat16(), out.half()),
    "of_earlier_call": lambda b, loss, out, x: b.log.append(out.detach()) or b.log[0],
}
for label, make in RETURNS.items():
    add("return", f"return_{label}", returning(make))


@case("callable")
def callable_partial() -> Any:
    b = Bench()

    def step(scale: float, x: Tensor, y: Tensor, *, power: int) -> Tensor:
        return b.update(b.loss(x, y).pow(power) * scale)

    return b.world(functools.partial(step, 0.5, power=2))


@case("callable")
def callable_bound_method() -> Any:
    class Trainer(Bench):
        def train(self, x: Tensor, y: Tensor) -> Tensor:
            return self.usual(x, y)

    t = Trainer()
    return t.world(t.train)


@case("callable")
def callable_object() -> Any:
    class Trainer(Bench):
        calls_made = 0

        def __call__(self, x: Tensor, y: Tensor) -> Tensor:
            self.calls_made += 1
            return self.update(self.loss(x, y) * self.calls_made)

    t = Trainer()
    return t, t.calls, lambda: (t.model, t.opt, t.calls_made)


@case("callable")
def callable_lambda() -> Any:
    b = Bench()
    return b.world(lambda x, y: b.usual(x, y))


@case("callable")
def callable_static_and_class_methods() -> Any:
    b = Bench()

    class Trainer:
        scale = 2.0

        @staticmethod
        def loss(x: Tensor, y: Tensor) -> Tensor:
            return b.loss(x, y)

        @classmethod
        def step(cls, x: Tensor, y: Tensor) -> Tensor:
            cls.scale *= 0.5
            return b.update(cls.loss(x, y) * cls.scale)

    return Trainer.step, b.calls, lambda: (b.model, b.opt, Trainer.scale)


@case("callable")
def callable_decorated() -> Any:
    b = Bench()

    def counted(function: Any) -> Any:
        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            b.log.append(len(args))
            return function(*args, **kwargs), len(b.log)

        return inner

    return b.world(counted(b.usual))


@case("callable")
def callable_module() -> Any:
    class Task(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(8, 4)
            self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            self.opt.zero_grad()
            loss = F.cross_entropy(self.net(x), y)
            loss.backward()
            self.opt.step()
            return loss

    task = Task()
    return task, Bench().calls, lambda: (task, task.opt)


@case("callable")
def callable_from_text() -> Any:
    b = Bench()
    names: dict[str, Any] = {"b": b, "n": 0}
    exec("def step(x, y):\n global n\n n += 1\n return b.update(b.loss(x, y) * n)\n", names)
    return step_of(names, b)


def step_of(names: dict[str, Any], b: Bench) -> Any:
    return names["step"], b.calls, lambda: (b.model, b.opt, names["n"])


@case("callable")
def callable_with_nested_parts() -> Any:
    b = Bench()

    def outer(x: Tensor, y: Tensor) -> Tensor:
        depth = 0

        def inner(k: int) -> Tensor:
            nonlocal depth
            depth += 1
            return b.loss(x, y) if k == 0 else inner(k - 1) * 0.9

        loss = inner(len(b.log) % 3)
        b.log.append(depth)
        return b.update(loss)

    return b.world(outer)


@case("callable")
def callable_that_imports() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        import colorsys

        return b.update(b.loss(x, y) * (1 + colorsys.rgb_to_hsv(0.2, 0.4, 0.6)[1]))

    return b.world(step)


@case("callable")
def callable_with_generators_and_contexts() -> Any:
    b = Bench()

    @contextlib.contextmanager
    def logged(name: str) -> Any:
        b.log.append(f"+{name}")
        try:
            yield len(b.log)
        finally:
            b.log.append(f"-{name}")

    def step(x: Tensor, y: Tensor) -> Tensor:
        with logged("loss") as n, contextlib.suppress(ZeroDivisionError):
            parts = (b.loss(a, c) for a, c in zip(x.split(2), y.split(2), strict=True))
            loss = sum(parts) / n
            b.update(loss)
            1 / 0  # noqa: B018 - raises.
        return loss

    return b.world(step)


def raising(error: type[BaseException], after_update: bool, swallowed: bool = False) -> Any:
    """A case whose third call raises; training goes on."""

    def build() -> Any:
        b, n = Bench(make=sgd), [0]

        def step(x: Tensor, y: Tensor) -> Tensor:
            n[0] += 1
            loss = b.loss(x, y)
            if n[0] == 3 and not after_update:
                raise error("by the user")
            b.update(loss)
            if n[0] == 3:
                raise error("by the user")
            return loss

        one, two, three, four, five = b.calls
        return b.world(step, n, calls=[one, two, Call(*three, raises=error), four, five])

    return build


class UserError(Exception):
    """An exception class of the user's own."""


for error in (UserError, ValueError, KeyboardInterrupt, StopIteration, MemoryError):
    label = error.__name__.lower()
    add("exception", f"raises_{label}_before_the_update", raising(error, after_update=False))
    add("exception", f"raises_{label}_after_the_update", raising(error, after_update=True))


@case("exception")
def raises_between_backward_and_step() -> Any:
    b, n = Bench(make=sgd), [0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        n[0] += 1
        loss = b.loss(x, y)
        loss.backward()
        if n[0] == 3:
            raise UserError
        b.opt.step()
        b.opt.zero_grad()
        return loss

    one, two, three, four, five = b.calls
    return b.world(step, n, calls=[one, two, Call(*three, raises=UserError), four, five])


@case("exception")
def raises_in_a_backward_hook() -> Any:
    b, n = Bench(make=sgd), [0]

    def hook(g: Tensor) -> None:
        n[0] += 1
        if n[0] == 3:
            raise UserError

    b.model[0].weight.register_hook(hook)
    one, two, three, four, five = b.calls
    return b.world(b.usual, n, calls=[one, two, Call(*three, raises=UserError), four, five])


@case("exception")
def raises_by_the_value_of_the_loss() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> float:
        loss = b.usual(x, y)
        if x[0, 0] > 90:
            raise UserError(loss.item())
        return loss.item()

    one, two, three, four, five = b.calls
    three[0][0, 0] = 99.0
    return b.world(step, calls=[one, two, Call(*three, raises=UserError), four, five])


@case("exception")
def swallows_its_own_exception() -> Any:
    b, n = Bench(), [0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        n[0] += 1
        try:
            if n[0] % 2 == 0:
                raise UserError(b.loss(x, y).item())
            scale = 1.0
        except UserError as caught:
            scale = caught.args[0]
        finally:
            b.log.append(n[0])
        return b.update(b.loss(x, y) * scale)

    return b.world(step, n)


@case("exception")
def swallows_an_error_of_torch() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        try:
            out = b.model(x.t())
        except RuntimeError as error:
            b.log.append(type(error).__name__)
            out = b.model(x)
        return b.update(F.cross_entropy(out, y))

    return b.world(step)


@case("exception")
def retries_with_halves() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> int:
        size = len(x)
        while True:
            try:
                for a, c in zip(x.split(size), y.split(size), strict=True):
                    if len(a) > 3:
                        raise MemoryError
                    b.update(b.loss(a, c))
                return size
            except MemoryError:
                size //= 2

    return b.world(step)


@case("exception")
def first_call_raises() -> Any:
    b, n = Bench(make=sgd), [0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        n[0] += 1
        if n[0] == 1:
            raise UserError
        return b.usual(x, y)

    one, two, three, *_ = b.calls
    return b.world(step, n, calls=[Call(*one, raises=UserError), two, three])


@case("exception")
def traceback_text_of_the_user() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> int:
        text = io.StringIO()
        try:
            raise UserError("inner")
        except UserError:
            traceback.print_exc(file=text)
        b.usual(x, y)
        return text.getvalue().count("inner")

    return b.world(step)
