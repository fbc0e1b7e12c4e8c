"""Generators: torch's, numpy's and Python's; dropout; checkpointing; distributions."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from kit import Do, add, case
from torch import Tensor, distributions, nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from worlds import Bench, stepping, with_loss


def seeded_again(b: Bench, loss: Tensor, x: Tensor) -> Tensor:
    torch.manual_seed(3)
    return loss * torch.rand(())


def made_inside(b: Bench, loss: Tensor, x: Tensor) -> Tensor:
    return loss * torch.randn((), generator=torch.Generator().manual_seed(7)).abs()


def made_from_a_counter(b: Bench, loss: Tensor, x: Tensor) -> Tensor:
    b.log.append(len(b.log))
    return loss * torch.rand((), generator=torch.Generator().manual_seed(len(b.log)))


def state_taken_and_set(b: Bench, loss: Tensor, x: Tensor) -> Tensor:
    state = torch.get_rng_state()
    one = torch.rand(())
    torch.set_rng_state(state)
    return loss * (one + torch.rand(()))


def forked(b: Bench, loss: Tensor, x: Tensor) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(len(b.log))
        noise = torch.rand(())
    b.log.append(torch.rand(()).item())
    return loss * noise


NOISE: dict[str, Any] = {
    "randn_like": lambda b, loss, x: loss * torch.randn_like(x).abs().mean(),
    "rand_item": lambda b, loss, x: loss * (1 + torch.rand(1).item()),
    "randint_item": lambda b, loss, x: loss + b.model(x)[int(torch.randint(6, (1,)))].sum(),
    "randperm": lambda b, loss, x: (
        loss + (b.model(x) - b.model(x[torch.randperm(6)])).square().mean()
    ),
    "bernoulli": lambda b, loss, x: (
        loss + b.model(x).mul(torch.bernoulli(torch.full((4,), 0.5))).mean()
    ),
    "multinomial": lambda b, loss, x: loss + b.model(x[torch.multinomial(torch.ones(6), 3)]).mean(),
    "normal_in_place": lambda b, loss, x: loss * torch.empty(4).normal_(1, 0.1).mean(),
    "uniform_exponential": lambda b, loss, x: (
        loss * torch.empty(9).uniform_().add_(torch.empty(9).exponential_()).mean()
    ),
    "gumbel_softmax": lambda b, loss, x: (
        loss + F.gumbel_softmax(b.model(x), hard=True)[:, 0].mean()
    ),
    "rrelu": lambda b, loss, x: loss + F.rrelu(b.model(x), training=True).mean(),
    "dropouts": lambda b, loss, x: (
        loss
        + F.alpha_dropout(
            torch.feature_dropout(b.model(x)[..., None], 0.5, True), training=True
        ).mean()
    ),
    "python_random": lambda b, loss, x: loss * random.random(),
    "python_random_choice": lambda b, loss, x: loss * random.choice([1.0, 2.0, 3.0]),
    "numpy_random": lambda b, loss, x: loss * np.random.rand(),  # noqa: NPY002
    "numpy_beta": lambda b, loss, x: loss * float(np.random.beta(0.4, 0.4)),  # noqa: NPY002
    "seeded_again": seeded_again,
    "made_inside": made_inside,
    "made_from_a_counter": made_from_a_counter,
    "state_taken_and_set": state_taken_and_set,
    "forked": forked,
    "initial_seed": lambda b, loss, x: loss * (torch.initial_seed() % 7 + 1),
}
for label, change in NOISE.items():
    add("random", f"random_{label}", with_loss(change))


@case("random")
def random_generator_of_the_closure() -> Any:
    b, g = Bench(), torch.Generator().manual_seed(5)

    def step(x: Tensor, y: Tensor) -> Tensor:
        noise = torch.randn(x.shape, generator=g)
        return b.update(F.cross_entropy(b.model(x + noise), y))

    return b.world(step, g)


@case("random")
def random_generator_as_argument() -> Any:
    b, g = Bench(), torch.Generator().manual_seed(5)

    def step(x: Tensor, y: Tensor, g: torch.Generator) -> Tensor:
        return b.update(F.cross_entropy(b.model(x + torch.randn(x.shape, generator=g)), y))

    return b.world(step, g, calls=[(*batch, g) for batch in b.calls])


@case("random")
def random_generators_of_python_and_numpy() -> Any:
    b, r, g = Bench(), random.Random(1), np.random.default_rng(2)

    def step(x: Tensor, y: Tensor) -> Tensor:
        scale = r.gauss(1, 0.1) * g.uniform(0.5, 1.5)
        noise = torch.from_numpy(g.normal(size=(6, 8))).float()
        return b.update(F.cross_entropy(b.model(x + noise), y) * scale)

    return step, b.calls, lambda: (b.model, b.opt, hash(r.getstate()), str(g.bit_generator.state))


@case("random")
def random_seeded_between_calls() -> Any:
    b = Bench(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 4)))
    seed = Do(lambda: torch.manual_seed(99))
    one, two, three, four, five = b.calls
    return b.world(
        b.usual, calls=[one, seed, two, seed, three, Do(lambda: torch.rand(3)), four, five]
    )


@case("random")
def random_draws_by_the_caller() -> Any:
    b = Bench(nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 4)))
    draw = Do(lambda: b.log.append(torch.rand(2)))
    calls: list[Any] = []
    for batch in b.calls:
        calls += [batch, draw]
    return b.world(b.usual, calls=calls)


@case("random")
def random_layers_are_skipped() -> Any:
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts, self.out = nn.ModuleList(nn.Linear(8, 8) for _ in range(3)), nn.Linear(8, 4)

        def forward(self, x: Tensor) -> Tensor:
            for part in self.parts:
                if torch.rand(1).item() < 0.6 and random.random() < 0.9:
                    x = x + part(x).tanh()
            return self.out(x)

    b = Bench(Deep())
    return b.world(b.usual)


@case("random")
def random_mixup() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> tuple[Tensor, float]:
        lam = np.random.beta(0.4, 0.4)  # noqa: NPY002 - the form under test.
        order = torch.randperm(len(x))
        out = b.model(lam * x + (1 - lam) * x[order])
        loss = lam * F.cross_entropy(out, y) + (1 - lam) * F.cross_entropy(out, y[order])
        return b.update(loss), lam

    return b.world(step)


@case("random")
def random_crops() -> Any:
    b = Bench(nn.Sequential(nn.Linear(5, 4)))

    def step(x: Tensor, y: Tensor) -> Tensor:
        at = random.randint(0, 3)
        if np.random.rand() < 0.5:  # noqa: NPY002 - the form under test.
            x = x.flip(1)
        return b.update(F.cross_entropy(b.model(x[:, at : at + 5]), y))

    return b.world(step)


@case("random")
def random_initialization_inside() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        nn.init.kaiming_uniform_(b.model[2].weight)
        b.model[2].reset_parameters()
        return b.usual(x, y)

    return b.world(step)


@case("random")
def random_model_made_inside() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        head = nn.Linear(8, 4)
        return b.update(F.cross_entropy(b.model(x) + head(x), y))

    return b.world(step)


@case("random")
def random_lstm_with_dropout() -> Any:
    b = Bench(nn.ModuleDict({"rnn": nn.LSTM(8, 8, 2, dropout=0.4), "out": nn.Linear(8, 4)}))

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(F.cross_entropy(b.model["out"](b.model["rnn"](x)[0]), y))

    return b.world(step)


def checkpointed(**options: Any) -> Any:
    def body(b: Bench, x: Tensor, y: Tensor) -> Tensor:
        hidden = checkpoint(lambda z: F.dropout(b.model[:2](z), 0.5), x.requires_grad_(), **options)
        return b.update(F.cross_entropy(b.model[2](hidden), y))

    return stepping(body)


def checkpointed_copy(**options: Any) -> Any:
    def body(b: Bench, x: Tensor, y: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        hidden = checkpoint(lambda z: F.dropout(b.model[:2](z), 0.5), x, **options)
        return b.update(F.cross_entropy(b.model[2](hidden), y))

    return stepping(body)


add("checkpoint", "checkpoint_reentrant", checkpointed_copy(use_reentrant=True))
add("checkpoint", "checkpoint_not_reentrant", checkpointed_copy(use_reentrant=False))
add("checkpoint", "checkpoint_of_an_argument", checkpointed(use_reentrant=False))
add(
    "checkpoint",
    "checkpoint_without_generator",
    checkpointed_copy(use_reentrant=False, preserve_rng_state=False),
)
add(
    "checkpoint",
    "checkpoint_without_check",
    checkpointed_copy(use_reentrant=False, determinism_check="none"),
)


@case("checkpoint")
def checkpoint_of_a_sequence() -> Any:
    parts = [nn.Linear(8, 8), nn.Dropout(0.2), nn.Tanh(), nn.Linear(8, 4)]
    b = Bench(nn.Sequential(*parts))

    def step(x: Tensor, y: Tensor) -> Tensor:
        out = checkpoint_sequential(b.model, 2, x, use_reentrant=False)
        return b.update(F.cross_entropy(out, y))

    return b.world(step)


@case("checkpoint")
def checkpoint_with_python_state() -> Any:
    b, runs = Bench(), [0]

    def inner(x: Tensor) -> Tensor:
        runs[0] += 1
        return b.model(x)

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(F.cross_entropy(checkpoint(inner, x, use_reentrant=False), y))

    return b.world(step, runs)


@case("distribution")
def distribution_of_actions() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        policy = distributions.Categorical(logits=b.model(x))
        action = policy.sample()
        reward = (action == y).float() - 0.5
        b.update(-(policy.log_prob(action) * reward).mean() - 0.01 * policy.entropy().mean())
        return action

    return b.world(step)


@case("distribution")
def distribution_with_validation() -> Any:
    b = Bench(nn.Linear(8, 4))

    def step(x: Tensor, y: Tensor) -> Tensor:
        mean, scale = b.model(x).chunk(2, 1)
        normal = distributions.Normal(mean, F.softplus(scale), validate_args=True)
        prior = distributions.Normal(torch.zeros(2), torch.ones(2), validate_args=True)
        z = normal.rsample()
        kl = distributions.kl_divergence(normal, prior).mean()
        return b.update(-normal.log_prob(z.detach()).mean() + kl + z.square().mean())

    return b.world(step)


@case("distribution")
def distribution_of_many_kinds() -> Any:
    b = Bench(nn.Linear(8, 4))

    def step(x: Tensor, y: Tensor) -> Tensor:
        rate = F.softplus(b.model(x)) + 0.1
        beta = distributions.Beta(rate[:, 0], rate[:, 1]).rsample()
        gamma = distributions.Gamma(rate[:, 2], 1.0).rsample()
        mixed = distributions.Dirichlet(rate).rsample()
        poisson = distributions.Poisson(rate[:, 3]).sample()
        return b.update((beta * gamma).mean() + (mixed * poisson[:, None]).mean())

    return b.world(step)
