"""Step functions for the tests of the Python state, and what a test asks of them afterwards."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from fitstep.state import Swap, discover, swapped
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map


class Lift(TorchDispatchMode):
    """What the recorder does with real tensors that it meets; counts the operators."""

    def __init__(self, swap: Swap) -> None:
        super().__init__()
        self.swap = swap
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        name = func.name()
        if name.startswith(("aten::lift_fresh", "profiler::")):
            return func(*args, **(kwargs or {}))

        def lift(x: Any) -> Any:
            if isinstance(x, torch.Tensor) and not isinstance(x, FakeTensor):
                return self.swap.external(x)
            return x

        return func(*tree_map(lift, args), **tree_map(lift, kwargs or {}))


def record(
    step: Callable[..., Any],
    *args: Any,
    look: Callable[[Swap], Any] = lambda swap: swap.final(),
    **options: Any,
) -> tuple[Any, Swap]:
    """Runs a step on fakes and puts everything back; what `look` saw at its end, and the swap."""
    mode = FakeTensorMode(allow_non_fake_inputs=False, shape_env=None)
    reach = discover(step)
    with swapped(reach, mode, **options) as swap:
        fake_args = tree_map(
            lambda a: mode.from_tensor(a) if isinstance(a, torch.Tensor) else a, args
        )
        with mode, Lift(swap):
            step(*fake_args)
        return look(swap), swap


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.last_shape = tuple(x.shape)
        return self.layers(x)


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(functional.relu(self.norm(self.conv(x))))
        return self.head(x.mean((2, 3)))


class TiedGpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(self.embed(x)))


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(8, 8, 2, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(x)[0][:, -1])


class Normed(nn.Module):
    """Old and parametrized weight norm, spectral norm, a rebound buffer and attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))
        self.second = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8))
        self.third = nn.utils.spectral_norm(nn.Linear(8, 4))
        self.register_buffer("mean", torch.zeros(4))
        self.run = torch.zeros(4)
        self.pair = (torch.ones(4), [torch.ones(4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.third(functional.relu(self.second(self.first(x))))
        self.mean = self.mean * 0.9 + y.detach().mean(0)
        self.run = self.run * 0.9 + y.detach().sum(0)
        return y * self.pair[0] + self.pair[1][0]


class Case:
    """A model with its optimizer, and a step that can be told to throw."""

    def __init__(self, name: str, optimizer: str = "AdamW") -> None:
        torch.manual_seed(7)
        made: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
            "mlp": (Mlp, lambda: torch.randn(5, 8)),
            "conv": (ConvNet, lambda: torch.randn(5, 3, 8, 8)),
            "gpt": (TiedGpt, lambda: torch.randint(0, 11, (5, 6))),
            "lstm": (Lstm, lambda: torch.randn(5, 6, 8)),
            "normed": (Normed, lambda: torch.randn(5, 8)),
        }
        self.model = made[name][0]()
        self.x = made[name][1]()
        self.y = torch.randint(0, 4, (5, 6) if name == "gpt" else (5,))
        options = {"momentum": 0.9} if optimizer == "SGD" else {}
        self.optimizer = getattr(torch.optim, optimizer)(self.model.parameters(), 0.01, **options)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2)
        parameters = list(self.model.parameters())
        self.ema = {id(p): p.detach().clone() for p in parameters}
        self.throw: str | None = None
        self.history: list[torch.Tensor] = []
        ema = [(p, self.ema[id(p)]) for p in parameters]
        model, optimizer_, scheduler = self.model, self.optimizer, self.scheduler

        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            optimizer_.zero_grad()
            if self.throw == "forward":
                model(x)
                raise RuntimeError("forward")
            out = model(x)
            loss = functional.cross_entropy(out.flatten(0, -2), y.flatten())
            loss.backward()
            if self.throw == "backward":
                raise RuntimeError("backward")
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer_.step()
            if self.throw == "step":
                raise KeyboardInterrupt
            scheduler.step()
            with torch.no_grad():
                for p, average in ema:
                    average.lerp_(p, 0.1)
            self.history.append(loss.detach())
            return loss.detach()

        self.step = step

    def train(self, steps: int) -> list[torch.Tensor]:
        losses = []
        for i in range(steps):
            torch.manual_seed(100 + i)
            losses.append(self.step(self.x, self.y))
        return losses


def facts(*roots: Any) -> list[Any]:
    """Everything about the tensors and numbers below some objects that must not change."""
    found: list[Any] = [torch.get_rng_state().tolist(), random.getstate()]
    seen: set[int] = set()
    todo: list[Any] = list(roots)
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        if isinstance(value, torch.Tensor):
            seen.add(id(value))
            assert not isinstance(value, FakeTensor), "a fake was left behind"
            found.append(
                (id(value), value.data_ptr(), value._version, value.requires_grad)
                + (id(value.grad) if value.is_leaf else 0, bits(value))
            )
            if value.is_leaf and value.grad is not None:
                todo.append(value.grad)
            todo.extend(value.__dict__.values())
        elif isinstance(value, dict):
            found.append((id(value), [_name(key) for key in value]))
            todo.extend(reversed(list(value.values())))
            todo.extend(k for k in value if isinstance(k, torch.Tensor))
            seen.add(id(value))
        elif isinstance(value, list | tuple | set):
            found.append((type(value).__name__, len(value)))
            todo.extend(reversed(list(value)))
        elif isinstance(value, int | float | str | bool | type(None)):
            found.append(value)
        elif isinstance(value, nn.Module) or (hasattr(value, "__dict__") and not callable(value)):
            seen.add(id(value))
            todo.append(value.__dict__)
    return found


def _name(key: Any) -> Any:
    return id(key) if isinstance(key, torch.Tensor) else key


def bits(tensor: torch.Tensor) -> bytes:
    """The content of a tensor as bytes."""
    return tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def same_training(a: Case, b: Case, steps: int = 4) -> bool:
    """Whether two cases train on with the same bits, in losses and in all state."""
    losses = [bits(x) for x in a.train(steps)] == [bits(x) for x in b.train(steps)]
    return losses and state_bits(a) == state_bits(b)


def state_bits(case: Case) -> list[bytes]:
    """All state of a case as bytes."""
    found = list(case.model.state_dict().values()) + list(case.ema.values()) + case.history
    found += [p.grad for p in case.model.parameters() if p.grad is not None]
    states = case.optimizer.state_dict()["state"]
    found += [t for t in tree_leaves(states) if isinstance(t, torch.Tensor)]
    return [bits(t) for t in found] + [repr(case.scheduler.state_dict()).encode()]
