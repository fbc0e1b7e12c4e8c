"""Steps that their first call compiles: @fitstep.step, and compile without example=."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from api_models import Job, same
from torch import Tensor, nn

import fitstep
from fitstep import _core


class Trainer:
    """A class whose method is a step."""

    def __init__(self) -> None:
        self.job = Job()

    @fitstep.step(budget="2MiB", effort=1)
    def step(self, x: Tensor, y: Tensor) -> Tensor:
        """One step."""
        return self.job.step(x, y)


class Louder(Trainer):
    def step(self, x: Tensor, y: Tensor) -> Tensor:
        return super().step(x, y) + 0


@fitstep.step(budget="2MiB")
def of_a_module(x: Tensor) -> Tensor:
    return x + 1


def test_a_decorated_step_compiles_at_its_first_call_and_trains_with_plain_bits() -> None:
    plain, job = Job(), Job()
    for _ in range(3):
        losses = [plain.step(plain.x, plain.y).detach()]

    @fitstep.step(budget="2MiB", effort=1)
    def train_step(x: Tensor, y: Tensor) -> Tensor:
        return job.step(x, y)

    torch.manual_seed(11)
    job.__init__()  # type: ignore[misc]  # The model need not be there before the first call.
    assert "first call" in repr(train_step)
    for _ in range(3):
        loss = train_step(job.x, job.y)
    assert torch.equal(loss, losses[0])
    assert same(job.state(), plain.state())
    assert "2 variants" in repr(train_step)
    train_step.close()


def test_names_and_signature_are_those_of_the_function() -> None:
    assert of_a_module.__name__ == "of_a_module"
    assert isinstance(of_a_module, fitstep.Step)
    assert of_a_module.function(1) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "ask",
    [
        lambda step: step.report(),
        lambda step: step.check(),
        lambda step: step.plan,
        lambda step: step.program,
        lambda step: step.budget_bytes,
        lambda step: step.variants,
    ],
)
def test_before_the_first_call_a_question_says_to_call_the_step(
    ask: Callable[[Any], object],
) -> None:
    step = fitstep.compile(Job().step, budget="2MiB")
    with pytest.raises(fitstep.FitstepError, match="call the step first"):
        ask(step)
    step.close()  # There is nothing to free.


def test_a_first_call_with_too_small_a_budget_changes_nothing_and_may_be_tried_again() -> None:
    job = Job()
    before = job.state()
    step = fitstep.compile(job.step, budget=4096, effort=1)
    for _ in range(2):
        with pytest.raises(fitstep.BudgetTooSmall, match="nothing was changed"):
            step(job.x, job.y)
        assert same(job.state(), before)
        assert not job.optimizer.state
        assert "first call" in repr(step)


def test_the_first_call_may_have_keyword_arguments_which_check_uses_too() -> None:
    job = Job()
    step = fitstep.compile(job.step, budget="2MiB", effort=1)
    step(job.x, y=job.y)
    assert step.check(steps=1).steps == 1
    step.close()


def test_each_object_has_a_step_of_its_own() -> None:
    a, b, plain = Trainer(), Trainer(), Job()
    for trainer in (a, b):
        assert trainer.step is trainer.step
        torch.manual_seed(3)
        trainer.step(trainer.job.x, trainer.job.y)
    torch.manual_seed(3)
    plain.step(plain.x, plain.y)
    assert same(a.job.state(), plain.state())
    assert same(b.job.state(), plain.state())
    assert a.step is not b.step
    a.step.close()
    b.step(b.job.x, b.job.y)
    b.step.close()


def test_a_subclass_may_call_the_step_of_its_base() -> None:
    trainer = Louder()
    loss = trainer.step(trainer.job.x, trainer.job.y)
    assert loss.shape == ()
    fitstep.step(budget="2MiB", effort=1)(Louder().step)


def test_copies_of_an_object_get_steps_of_their_own() -> None:
    trainer = Trainer()
    trainer.step(trainer.job.x, trainer.job.y)
    for copied in (copy.copy(trainer), copy.deepcopy(trainer)):
        assert copied.step is not trainer.step
        assert copied.step.function.__self__ is copied
    trainer.step.close()


def test_pickle_takes_the_name_of_a_decorated_function_and_refuses_others() -> None:
    assert pickle.loads(pickle.dumps(of_a_module)) is of_a_module
    with pytest.raises(pickle.PicklingError, match="compiled step"):
        pickle.dumps(fitstep.compile(Job().step, budget="2MiB"))


def test_an_object_with_a_step_pickles() -> None:
    trainer = Trainer()
    trainer.step(trainer.job.x, trainer.job.y)
    again = pickle.loads(pickle.dumps(trainer))
    assert again.step.function.__self__ is again
    trainer.step.close()


def test_after_close_the_next_call_compiles_anew() -> None:
    job = Job()
    step = fitstep.compile(job.step, budget="2MiB", effort=1)
    step(job.x, job.y)
    step.close()
    step(job.x, job.y)
    assert step.report().violations == 0
    step.close()


def test_a_step_inside_a_step_stays_a_plain_function() -> None:
    job = Job()
    inner = fitstep.compile(job.step, budget="2MiB", effort=1)
    outer = fitstep.compile(
        lambda x, y: inner(x, y), (job.x, job.y), budget="2MiB", model=job.model, effort=1
    )
    outer(job.x, job.y)
    assert "first call" in repr(inner)
    outer.close()


def test_a_second_thread_is_refused_while_the_first_call_runs() -> None:
    job = Job()
    refused: list[BaseException] = []

    def step(x: Tensor, y: Tensor) -> Tensor:
        if not refused:
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
        return job.step(x, y)

    def other() -> None:
        try:
            lazy(job.x, job.y)
        except BaseException as error:
            refused.append(error)

    lazy = fitstep.compile(step, budget="2MiB", model=job.model, optimizer=job.optimizer, effort=1)
    lazy(job.x, job.y)  # The previews take back what they add to `refused`, the call does not.
    lazy.close()
    assert refused
    assert all(isinstance(error, fitstep.FitstepError) for error in refused)


def test_an_error_of_the_step_function_comes_as_it_is() -> None:
    @fitstep.step(budget="2MiB")
    def train_step(x: Tensor) -> Tensor:
        raise RuntimeError("no data")

    with pytest.raises(RuntimeError, match="no data"):
        train_step(torch.ones(1))
    with pytest.raises(TypeError):
        train_step()


def test_a_first_call_that_raises_leaves_what_plain_pytorch_leaves() -> None:
    def run(make: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(7)
        job, calls = Job(), []
        norm = nn.BatchNorm1d(job.x.shape[1])

        @make
        def train_step(x: Tensor, y: Tensor, is_bad: bool) -> Tensor:
            calls.append(is_bad)
            x = norm(x)
            if is_bad:
                raise KeyError("a bad batch")
            return job.step(x, y)

        for is_bad in (True, False, False):
            try:
                train_step(job.x, job.y, is_bad)
            except KeyError:
                calls.append("skipped")
        return [calls, *job.state(), *norm.buffers()]

    ours, plain = run(fitstep.step(budget="2MiB", effort=1)), run(lambda function: function)
    assert ours[0] == plain[0]
    assert same(ours[1:], plain[1:])


def test_a_first_call_that_only_its_recording_breaks_is_plain_and_warns() -> None:
    job = Job()

    @fitstep.step(budget="2MiB", effort=1)
    def train_step(x: Tensor, y: Tensor) -> Tensor:
        if _core.is_hollow(x * 1):
            raise ValueError("no kernel has run")
        return job.step(x, y)

    with pytest.warns(UserWarning, match="ran outside the budget"):
        train_step(job.x, job.y)
    assert "first call" in repr(train_step)


def test_a_class_method_is_a_step_of_its_class() -> None:
    class Holder:
        job = Job()

        @classmethod
        @fitstep.step(budget="2MiB", effort=1)
        def step(cls, x: Tensor, y: Tensor) -> Tensor:
            return cls.job.step(x, y)

    plain = Job()
    for seed in range(2):
        for one in (Holder.step, plain.step):
            torch.manual_seed(seed)
            one(plain.x, plain.y)
    assert same(Holder.job.state(), plain.state())


def losses_of(methods: Callable[[Any], Any]) -> list[float]:
    """What a class's methods return, with `methods` as their decorator: two of one factory, one of
    a base of the same name, and one that is replaced between its calls."""

    def of_factory(factor: float) -> Any:
        def train_step(self: Any) -> Tensor:
            return self.job.step(self.job.x * factor, self.job.y)

        return methods(train_step)

    def made_of(base: type) -> type:
        class Holder(base):  # type: ignore[misc]
            first, second = of_factory(1), of_factory(2)

            @methods
            def third(self) -> Tensor:
                below = getattr(super(), "third", self.job.model[0].weight.sum)
                return below() + 1

        return Holder

    holder: Any = made_of(made_of(object))()
    holder.job = Job()
    torch.manual_seed(3)
    names = ("first", "second", "third")
    found = [getattr(holder, name)().item() for name in names * 2]
    type(holder).first = of_factory(4)
    found += [holder.first().item(), holder.second().item()]
    return found + holder.job.state()[0].flatten().tolist()


def test_methods_of_one_name_are_steps_of_their_own() -> None:
    plain = losses_of(lambda function: function)
    assert losses_of(fitstep.step(budget="2MiB", effort=1)) == plain


def test_wrong_arguments_are_refused_when_the_step_is_defined() -> None:
    with pytest.raises(fitstep.SettingError, match="budget='8GiB'"):
        fitstep.step("8GiB")  # type: ignore[arg-type]
    with pytest.raises(fitstep.BudgetError):
        fitstep.step(budget="lots")(Job().step)
    with pytest.raises(TypeError):
        fitstep.step(budgets="8GiB")(Job().step)


def test_an_object_without_a_dict_is_refused_with_what_to_do() -> None:
    class Small:
        __slots__ = ()

        @fitstep.step(budget="1MiB")
        def step(self) -> None: ...

    with pytest.raises(fitstep.FitstepError, match="__slots__"):
        Small().step()


def test_a_notebook_cell_that_runs_twice_compiles_twice() -> None:
    job = Job()

    def cell(budget: Any) -> fitstep.Step:
        step = fitstep.compile(job.step, (job.x, job.y), budget=budget, effort=1)
        step(job.x, job.y)
        return step

    step = cell("2MiB")
    step = cell("2MiB")
    with pytest.raises(fitstep.BudgetError, match=r"close\(\) the earlier step"):
        cell("3MiB")
    step.close()
    cell("3MiB").close()


def test_a_module_with_a_decorated_method_trains() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.optimizer = torch.optim.SGD(self.parameters(), lr=0.01)

        @fitstep.step(budget="2MiB", effort=1)
        def train_step(self, x: Tensor) -> Tensor:
            self.optimizer.zero_grad()
            loss = self.layer(x).square().sum()
            loss.backward()
            self.optimizer.step()
            return loss

    net, x = Net(), torch.ones(2, 4)
    first = float(net.train_step(x))
    assert float(net.train_step(x)) < first
    assert set(net.state_dict()) == {"layer.weight", "layer.bias"}
    net.train_step.close()
