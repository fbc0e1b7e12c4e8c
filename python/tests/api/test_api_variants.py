"""Which program runs: gradients in use, loaded state, numbers, flags."""

from __future__ import annotations

import re
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from api_models import Job, compiled, same
from torch import Tensor, nn

import fitstep


def accumulate_and_update(job: Job) -> tuple[Any, Any]:
    def accumulate(x: Tensor, y: Tensor) -> Tensor:
        loss = nn.functional.cross_entropy(job.model(x), y)
        loss.backward()
        return loss

    def update(x: Tensor, y: Tensor) -> Tensor:
        loss = accumulate(x, y)
        job.optimizer.step()
        job.optimizer.zero_grad()
        return loss

    return accumulate, update


@pytest.mark.parametrize("is_update_first", [False, True])
def test_gradients_flow_from_function_to_function(is_update_first: bool) -> None:
    """Also when the function that leaves them is compiled after the one that reads them."""

    def run(job: Job, accumulate: Any, update: Any) -> list[Tensor]:
        for _ in range(3):
            for function in (accumulate, accumulate, update):
                function(job.x, job.y)
        update(job.x, job.y)
        return job.state()

    job = Job()
    example = (job.x, job.y)
    functions = accumulate_and_update(job)
    order = functions[::-1] if is_update_first else functions
    with compiled(order[0], example) as first:
        second = fitstep.compile(order[1], example=example, effort=1)
        steps = (second, first) if is_update_first else (first, second)
        ours = run(job, *steps)
    plain = Job()
    assert same(ours, run(plain, *accumulate_and_update(plain)))


def test_state_that_is_loaded_before_the_first_step_is_used() -> None:
    """The optimizer was empty when the step was compiled."""

    def saved() -> tuple[Any, Any]:
        other = Job()
        other.step(other.x, other.y)
        return other.model.state_dict(), deepcopy(other.optimizer.state_dict())

    def resume(job: Job) -> None:
        torch.manual_seed(5)
        model, optimizer = saved()
        job.model.load_state_dict(model)
        job.optimizer.load_state_dict(optimizer)

    job = Job()
    with compiled(job.step, (job.x, job.y)) as step:
        resume(job)
        for _ in range(2):
            step(job.x, job.y)
        ours = job.state()
    plain = Job()
    resume(plain)
    for _ in range(2):
        plain.step(plain.x, plain.y)
    assert same(ours, plain.state())


def test_an_empty_state_that_is_loaded_is_a_first_step() -> None:
    job = Job()
    with compiled(job.step, (job.x, job.y)) as step:
        job.optimizer.load_state_dict(job.optimizer.state_dict())
        for _ in range(2):
            step(job.x, job.y)
        ours = job.state()
    plain = Job()
    for _ in range(2):
        plain.step(plain.x, plain.y)
    assert len(ours) == len(plain.state())
    assert same(ours, plain.state())


def weighted(job: Job) -> Any:
    def step(x: Tensor, y: Tensor, weight: float) -> Tensor:
        job.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(job.model(x), y) * weight
        loss.backward()
        job.optimizer.step()
        return loss

    return step


def test_a_float_argument_changes_from_call_to_call_in_one_program() -> None:
    weights = [1.0, 0.5, 0.25, 2.0, -1.5, 0.0]
    job = Job()
    with compiled(weighted(job), (job.x, job.y, 1.0)) as step:
        count = len(step.variants)
        losses = [step(job.x, job.y, weight) for weight in weights]
        assert len(step.variants) == count, "a new value needs no new program"
        ours = job.state()
    plain = Job()
    expected = [weighted(plain)(plain.x, plain.y, weight).detach() for weight in weights]
    assert same(losses, expected)
    assert same(ours, plain.state())


def test_a_float_that_is_computed_with_in_python_is_never_frozen() -> None:
    def make(job: Job) -> Any:
        step = weighted(job)

        def inverse(x: Tensor, y: Tensor, share: float) -> Tensor:
            return step(x, y, 1 - share if share < 0.5 else share)

        return inverse

    job = Job()
    shares = [0.25, 0.75, 0.25, 0.125]
    with compiled(make(job), (job.x, job.y, 0.25)) as step:
        for share in shares:
            step(job.x, job.y, share)
        ours = job.state()
    plain = Job()
    for share in shares:
        make(plain)(plain.x, plain.y, share)
    assert same(ours, plain.state())


class SetsAFlag(nn.Module):
    """As models do that find out at their first call what they are used for."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = SimpleNamespace(kind=None)
        self.inner = nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        if self.settings.kind is None:
            self.settings.kind = "classes"
        return self.inner(x)


def test_functions_that_name_their_tensors_alike_do_not_mix_them_up() -> None:
    def make(model: nn.Module, shared: nn.Module) -> Any:
        optimizer = torch.optim.SGD([*model.parameters(), *shared.parameters()], lr=0.1)

        def step(x: Tensor, y: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(shared(model(x)), y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    def build() -> tuple[Job, list[nn.Module], list[Any]]:
        job = Job()
        torch.manual_seed(2)
        modules = [nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 3)]
        return job, modules, [make(modules[0], modules[2]), make(modules[1], modules[2])]

    job, modules, functions = build()
    with compiled(functions[0], (job.x, job.y)) as first:
        second = fitstep.compile(functions[1], example=(job.x, job.y), effort=1)
        for _ in range(2):
            first(job.x, job.y)
            second(job.x, job.y)
        ours = [p.detach().clone() for m in modules for p in m.parameters()]
    job, modules, functions = build()
    for _ in range(2):
        functions[0](job.x, job.y)
        functions[1](job.x, job.y)
    assert same(ours, [p.detach() for m in modules for p in m.parameters()])


def test_an_argument_that_is_within_reach_too_is_an_argument() -> None:
    """The example was an attribute of the job; later calls bring other tensors."""

    def batches(job: Job) -> list[tuple[Tensor, Tensor]]:
        return [(job.x * scale, (job.y + scale) % 3) for scale in (1, 2, 3)]

    job = Job()
    with compiled(job.step, (job.x, job.y)) as step:
        losses = [step(*batch) for batch in batches(job)]
        ours = job.state()
    plain = Job()
    assert same(losses, [plain.step(*batch).detach() for batch in batches(plain)])
    assert same(ours, plain.state())


class TwoFunctions:
    """A step with numbers that change, and one on its results whose state makes the first one's
    homes move."""

    def __init__(self) -> None:
        self.job = Job(torch.optim.SGD)
        self.head = nn.Linear(3, 3)
        self.of_head = torch.optim.SGD(self.head.parameters(), lr=0.1, momentum=0.9)

    def step(self, x: Tensor, y: Tensor, scale: float) -> Tensor:
        self.job.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.job.model(x), y) * scale
        loss.backward()
        self.job.optimizer.step()
        return loss

    def step_of_head(self, x: Tensor) -> Tensor:
        self.of_head.zero_grad()
        loss = self.head(self.job.model(x).detach()).square().mean()
        loss.backward()
        self.of_head.step()
        return loss

    def state(self) -> list[Tensor]:
        return [*self.job.state(), *(p.detach().clone() for p in self.head.parameters())]


def test_a_step_that_is_planned_again_keeps_the_numbers_that_have_changed() -> None:
    ours, plain = TwoFunctions(), TwoFunctions()
    x, y = ours.job.x, ours.job.y
    parameters = list(ours.job.model.parameters())
    torch.manual_seed(1)
    with compiled(ours.step, (x, y, 1.0)) as step:
        step(x, y, 1.0)
        ours.job.optimizer.param_groups[0]["lr"] = 0.001
        step(x, y, 0.5)
        plan = str(step.plan)
        with compiled(ours.step_of_head, (x,)) as step_of_head:
            assert str(step.plan) != plan
            step_of_head(x)
            versions = [p._version for p in parameters]
            step(x, y, 0.5)
            step(x, y, 0.5)
            assert all(p._version > v for p, v in zip(parameters, versions, strict=True))
    found = ours.state()
    torch.manual_seed(1)
    plain.step(x, y, 1.0)
    plain.job.optimizer.param_groups[0]["lr"] = 0.001
    plain.step(x, y, 0.5)
    plain.step_of_head(x)
    plain.step(x, y, 0.5)
    plain.step(x, y, 0.5)
    assert same(found, plain.state())


def test_a_function_that_reaches_parameters_by_their_optimizer_alone_clears_all_gradients() -> None:
    def run(job: Job, accumulate: Any, update: Any) -> list[Tensor]:
        torch.manual_seed(2)
        for _ in range(3):
            accumulate(job.x, job.y)
            accumulate(job.x, job.y)
            update()
            assert all(p.grad is None for p in job.model.parameters())
        return job.state()

    def functions(job: Job) -> tuple[Any, Any]:
        optimizer = job.optimizer

        def update() -> None:
            optimizer.step()
            optimizer.zero_grad()

        return accumulate_and_update(job)[0], update

    ours, plain = Job(), Job()
    first, second = functions(ours)
    with compiled(first, (ours.x, ours.y)) as accumulate, compiled(second, ()) as update:
        found = run(ours, accumulate, update)
    assert same(found, run(plain, *functions(plain)))


def test_numbers_of_a_group_may_be_whole_and_then_not() -> None:
    def run(job: Job, step: Any) -> list[Tensor]:
        torch.manual_seed(2)
        for changed in ({"lr": 1}, {"lr": 0.5}, {"weight_decay": 0.01}, {"weight_decay": 0}):
            job.optimizer.param_groups[0].update(changed)
            step(job.x, job.y)
        return job.state()

    ours, plain = Job(torch.optim.SGD), Job(torch.optim.SGD)
    with compiled(ours.step, (ours.x, ours.y)) as step:
        found = run(ours, step)
    assert same(found, run(plain, plain.step))


def test_a_tensor_that_each_call_makes_anew_has_no_home() -> None:
    """As T5 makes its buckets: whole numbers that Python knows, to which it adds what it does not
    know. Every call that compile looks at had a home for its own, and a program."""

    def make() -> tuple[nn.Module, Any]:
        torch.manual_seed(0)
        model = nn.Linear(8, 4)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

        def train(x: Tensor, k: int) -> Tensor:
            buckets = torch.arange(4)
            buckets += (x.exp().mean() > 1).long() * k
            loss = (model(x) * buckets).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return buckets

        return model, train

    x = torch.ones(6, 8)
    (model, train), (plain, train_plain) = make(), make()
    step = fitstep.compile(train, (x, 2), audits="off")
    assert len(step.variants) == 2
    assert not any(name.startswith("closed-over") for name in step._session.homes)
    kept, expected = [step(x, k) for k in range(5)], [train_plain(x, k) for k in range(5)]
    assert all(map(torch.equal, kept, expected)), "each call's is its own"
    assert torch.equal(model.weight, plain.weight)
    step.close()


def test_what_is_computed_from_values_asked_for_is_foreseen() -> None:
    """Sums of losses that were asked for, running means, counts: no call plans another program."""

    class Meters(Job):
        def __init__(self) -> None:
            super().__init__()
            self.mean, self.right = torch.zeros(()), torch.zeros((), dtype=torch.long)

        def train(self, x: Tensor, y: Tensor) -> tuple[float, int, float]:
            self.optimizer.zero_grad()
            output = self.model(x)
            first = nn.functional.cross_entropy(output, y)
            first.backward()
            asked = first.item()
            second = self.model(x).square().mean()
            second.backward()
            self.optimizer.step()
            found = output.argmax(1)
            asked += second.item()
            self.right += (found == y).sum()
            both = first + second
            self.mean = self.mean * 0.5 + both.detach()
            return both.item(), int(self.right.item()), asked + self.mean.item()

    job, plain = Meters(), Meters()
    with compiled(job.train, (job.x, job.y)) as step:
        foreseen = len(step.variants)
        torch.manual_seed(3)
        ours = [step(job.x, job.y) for _ in range(4)]
        assert len(step.variants) == foreseen
        state = job.state()
    torch.manual_seed(3)
    assert ours == [plain.train(plain.x, plain.y) for _ in range(4)]
    assert same(state, plain.state())


def test_a_loop_that_no_made_up_value_ends_is_left() -> None:
    job, plain = Job(), Job()

    def halvings(job: Job) -> int:
        loss = nn.functional.cross_entropy(job.model(job.x), job.y).detach()
        loss.item()
        count = 0
        while (loss - 1).abs() < 1e-9:  # One, as compile makes it up, and it stays so.
            loss, count = loss * 1, count + 1
        return count

    with compiled(lambda: halvings(job), ()) as step:
        assert step() == halvings(plain)


def test_variants_print_their_names_ops_and_runs() -> None:
    job = Job()
    with compiled(job.step, (job.x, job.y)) as step:
        step(job.x, job.y)
        shown = [repr(variant) for variant in step.variants]
    assert re.fullmatch(r"<first step .*: \d+ ops, 1 run>", shown[0])
    assert re.fullmatch(r"<steady step .*: \d+ ops, 0 runs>", shown[-1])
