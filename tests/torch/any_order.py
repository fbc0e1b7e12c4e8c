"""Functions that share a model, called in any order, with all that users do in between.

    python tests/torch/any_order.py FROM TO     the seeds to try; prints what happened in the first
                                                that leaves other bits than plain PyTorch

Two trainees of equal bits do the same by dice: one through compiled functions, one through plain
ones. After everything that is done, all bits of both must be equal, gradients included.
"""

import copy
import random
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from fitstep_kit.measures.bits import Fingerprint, differences, fingerprint
from torch import Tensor, nn

import fitstep

OPTIMIZERS: tuple[Callable[[Any], torch.optim.Optimizer], ...] = (
    lambda parameters: torch.optim.SGD(parameters, lr=1),
    lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
    lambda parameters: torch.optim.RMSprop(parameters, lr=0.01),
    lambda parameters: torch.optim.Adagrad(parameters, lr=0.02),
)
BELOW: tuple[dict[str, Any], ...] = (
    {},
    {"host_budget": "400%"},
    {"disk_budget": "900%"},
    {"host_budget": "64KiB", "disk_budget": "900%"},
)
BUDGETS = ("256KiB", "128KiB", "96KiB", "64KiB")
FUNCTIONS = ("train", "train_head", "train_both", "accumulate", "update", "evaluate")
DONE_BETWEEN = (
    "change_rate", "change_decay", "save", "load", "load_optimizers", "to_eval", "to_train",
    "seed", "write", "freeze", "clear_grads",
)  # fmt: skip
ROWS = (8, 8, 8, 12)


class Trainee:
    """A trunk and a head with an optimizer each and one for both."""

    def __init__(self, seed: int) -> None:
        dice = random.Random(seed)
        torch.manual_seed(seed)
        self.trunk = nn.Sequential(
            nn.Linear(16, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 16)
        )
        self.head = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 4))
        both = [*self.trunk.parameters(), *self.head.parameters()]
        self.of_trunk = dice.choice(OPTIMIZERS)(self.trunk.parameters())
        self.of_head = dice.choice(OPTIMIZERS)(self.head.parameters())
        self.of_both = dice.choice(OPTIMIZERS)(both)
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.of_trunk, 0.9)
        self.x = {rows: torch.randn(rows, 16) for rows in set(ROWS)}
        self.y = {rows: torch.randint(0, 4, (rows,)) for rows in set(ROWS)}
        self.saved = self.state()

    def state(self) -> list[Any]:
        """A checkpoint."""
        return copy.deepcopy([one.state_dict() for one in self.parts()])

    def parts(self) -> list[Any]:
        """All that has a state_dict."""
        optimizers = [self.of_trunk, self.of_head, self.of_both, self.schedule]
        return [self.trunk, self.head, *optimizers]

    def bits(self) -> Fingerprint:
        """Of everything."""
        named = [*self.trunk.named_parameters(), *self.head.named_parameters()]
        grads = {name: p.grad for name, p in named if p.grad is not None}
        return fingerprint(parts=self.parts(), grads=grads, random=torch.get_rng_state())

    # -- functions that are compiled -----------------------------------------------------------

    def train(self, x: Tensor, y: Tensor, scale: float) -> Tensor:
        """With a schedule and a number."""
        self.of_trunk.zero_grad()
        loss = nn.functional.cross_entropy(self.head(self.trunk(x)), y) * scale
        loss.backward()
        self.of_trunk.step()
        self.schedule.step()
        return loss

    def train_head(self, x: Tensor, y: Tensor) -> Tensor:
        """The trunk as it is."""
        self.of_head.zero_grad()
        loss = nn.functional.cross_entropy(self.head(self.trunk(x).detach()), y)
        loss.backward()
        self.of_head.step()
        return loss

    def train_both(self, x: Tensor, y: Tensor) -> dict[str, Any]:
        """With clipping."""
        self.of_both.zero_grad()
        loss = self.accumulate(x, y)
        nn.utils.clip_grad_norm_(self.trunk.parameters(), 1.0)
        self.of_both.step()
        return {"loss": loss, "more": (loss * 2,)}

    def accumulate(self, x: Tensor, y: Tensor) -> Tensor:
        """Leaves gradients."""
        loss = nn.functional.cross_entropy(self.head(self.trunk(x)), y)
        loss.backward()
        return loss

    def update(self) -> None:
        """Uses them. It knows the parameters through their optimizer only."""
        self.of_both.step()
        self.of_both.zero_grad()

    def evaluate(self, x: Tensor) -> Tensor:
        """No gradients."""
        with torch.no_grad():
            found: Tensor = self.head(self.trunk(x))
        return found

    # -- what is done in between ---------------------------------------------------------------

    def change_rate(self, number: int) -> None:
        """Of one optimizer."""
        for group in (self.of_trunk, self.of_head, self.of_both)[number % 3].param_groups:
            group["lr"] *= (0.5, 2)[number % 2]

    def change_decay(self, number: int) -> None:
        """From a whole number to a fraction, or back."""
        for group in self.of_trunk.param_groups:
            group["weight_decay"] = (0.01, 0)[number % 2]

    def save(self, number: int) -> None:
        """For load()."""
        self.saved = self.state()

    def load(self, number: int) -> None:
        """All."""
        for part, state in zip(self.parts(), copy.deepcopy(self.saved), strict=True):
            part.load_state_dict(state)

    def load_optimizers(self, number: int) -> None:
        """And the schedule."""
        for part, state in zip(self.parts()[2:], copy.deepcopy(self.saved[2:]), strict=True):
            part.load_state_dict(state)

    def to_eval(self, number: int) -> None:
        """The trunk."""
        self.trunk.eval()

    def to_train(self, number: int) -> None:
        """The trunk."""
        self.trunk.train()

    def seed(self, number: int) -> None:
        """Of the generator."""
        torch.manual_seed(number)

    def write(self, number: int) -> None:
        """Into a parameter."""
        with torch.no_grad():
            next(self.trunk.parameters()).mul_(0.9)

    def freeze(self, number: int) -> None:
        """A parameter, or thaw it."""
        bias = self.trunk.get_parameter("0.bias")
        bias.requires_grad_(not bias.requires_grad)

    def clear_grads(self, number: int) -> None:
        """To none, or to zeros."""
        self.of_both.zero_grad(set_to_none=bool(number % 2))


class Trial:
    """Both trainees, and what has happened so far."""

    def __init__(self, seed: int, folder: str) -> None:
        self.dice = random.Random(seed)
        self.ours, self.plain = Trainee(seed), Trainee(seed)
        self.options: dict[str, Any] = {**self.dice.choice(BELOW), "effort": 1, "keep_grads": True}
        if "disk_budget" in self.options:
            self.options["disk_dir"] = folder
        tiers = [name for name in self.options if name.endswith("_budget")]
        self.options["policy"] = self.dice.choice(["auto", "offload" if tiers else "recompute"])
        self.options["budget"] = self.dice.choice(BUDGETS)
        self.steps: dict[str, fitstep.Step] = {}
        self.log = [str(self.options)]
        self.compiled_calls = 0

    def arguments(self, name: str, of: Trainee, rows: int, scale: float) -> tuple[Any, ...]:
        """Of a call."""
        every = (of.x[rows], of.y[rows], scale)
        return every[: {"train": 3, "update": 0, "evaluate": 1}.get(name, 2)]

    def run(self) -> str:
        """What went wrong, or nothing."""
        for number in range(self.dice.randint(12, 30)):
            if self.dice.random() < 0.55:
                problem = self.call()
            elif self.steps and self.dice.random() < 0.1:
                self.close()
                problem = ""
            else:
                what = self.dice.choice(DONE_BETWEEN)
                self.log.append(what)
                for trainee in (self.ours, self.plain):
                    getattr(trainee, what)(number)
                problem = ""
            different = differences(self.ours.bits(), self.plain.bits())
            if problem or different:
                return problem or f"other bits: {different}"
        self.close()
        return ", ".join(differences(self.ours.bits(), self.plain.bits()))

    def close(self) -> None:
        """All functions, as they share one arena."""
        self.log.append("close")
        for step in self.steps.values():
            step.close()
        self.steps = {}

    def call(self) -> str:
        """One function, of both; after an error, which must have changed nothing, the plain one."""
        name, rows = self.dice.choice(FUNCTIONS), self.dice.choice(ROWS)
        scale = self.dice.choice([1.0, 0.5])
        self.log.append(f"{name} of {rows} rows, {scale}")
        ours = self.arguments(name, self.ours, rows, scale)
        state = torch.get_rng_state()
        try:
            if name not in self.steps:
                function = getattr(self.ours, name)
                self.steps[name] = fitstep.compile(function, ours, **self.options)
            found = self.steps[name](*ours)
            self.compiled_calls += 1
        except fitstep.FitstepError as error:
            self.log.append(f"  {type(error).__name__}: {error}")
            if different := differences(self.ours.bits(), self.plain.bits()):
                return f"an error has changed {different}"
            self.close()
            found = getattr(self.ours, name)(*ours)
        torch.set_rng_state(state)
        expected = getattr(self.plain, name)(*self.arguments(name, self.plain, rows, scale))
        return ", ".join(differences(fingerprint(it=found), fingerprint(it=expected)))


def trial(seed: int) -> tuple[str, Trial]:
    """What went wrong with that seed, or nothing; and what was done."""
    with tempfile.TemporaryDirectory() as folder:
        done = Trial(seed, folder)
        return done.run(), done


if __name__ == "__main__":
    for seed in range(*map(int, sys.argv[1:3])):
        problem, done = trial(seed)
        errors = [line.split(":")[0].strip() for line in done.log if "Error: " in line]
        print(seed, done.compiled_calls, "calls", *errors, problem, flush=True)
        if problem:
            print(*done.log, sep="\n")
            sys.exit(1)
