"""Budgets that make no sense or are too small, and plan files that cannot be trusted."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from bench import ROWS, Bench
from fitstep_kit.measures.bits import differences
from fitstep_kit.measures.plain import held_bytes

import fitstep
from fitstep import _core


@pytest.mark.parametrize(
    "budget", ["6 Gibi", "", "much", "GiB", "-6GiB", "-5%", "0%", "nan%", "1e999GiB", -1, 0]
)
def test_a_malformed_budget_is_a_value_error(budget: int | str) -> None:
    bench = Bench(2)
    before = bench.identity()
    with pytest.raises(fitstep.BudgetError) as raised:
        fitstep.compile(bench.plain_step, example=bench.example, budget=budget)
    assert isinstance(raised.value, ValueError)
    assert str(budget) in str(raised.value)
    assert raised.value.todo
    assert bench.identity() == before
    bench.train(2)
    assert not differences(bench.bits(), Bench(4).bits())


def test_a_budget_below_the_floor_names_floor_least_and_culprits() -> None:
    bench = Bench(2)
    before = bench.identity()
    held = held_bytes(bench.model, bench.optimizer)
    with pytest.raises(fitstep.BudgetTooSmall) as raised:
        fitstep.compile(bench.plain_step, example=bench.example, budget=held)
    error = raised.value
    assert error.budget_bytes == held
    # Parameters, buffers and momentum alone are `held`; the step needs gradients beside them.
    assert error.floor_bytes > held - held_bytes(*[p.grad for p in bench.model.parameters()])
    assert error.least_found_bytes >= error.floor_bytes
    assert str(error.least_found_bytes) in str(error)
    assert any(".py:" in culprit for culprit in error.culprits)
    assert bench.identity() == before
    bench.train(2)
    assert not differences(bench.bits(), Bench(4).bits())


def test_the_least_budget_that_an_error_names_works() -> None:
    bench = Bench()
    with pytest.raises(fitstep.BudgetTooSmall) as raised:
        fitstep.compile(bench.plain_step, example=bench.example, budget=1)
    least = raised.value.least_found_bytes
    assert least is not None
    step = fitstep.compile(bench.plain_step, example=bench.example, budget=least)
    bench.train(4, step)
    step.close()
    assert not differences(bench.bits(), Bench(4).bits())


def cut_off(text: str) -> str:
    return text[: len(text) // 2]


def cut_off_at_the_end(text: str) -> str:
    return text.rstrip().rsplit("\n", 1)[0] + "\n"


def from_another_version(text: str) -> str:
    """The first number of the file is its version."""
    return re.sub(r"\d+", "999", text, count=1)


def edited_in_the_middle(text: str) -> str:
    """One digit of one number on the middle line that has one."""
    lines = text.split("\n")
    numbered = [i for i, line in enumerate(lines) if re.search(r"\d", line)]
    middle = numbered[len(numbered) // 2]
    digit = re.search(r"\d", lines[middle])
    assert digit is not None
    other = str((int(digit.group()) + 1) % 10)
    lines[middle] = lines[middle][: digit.start()] + other + lines[middle][digit.end() :]
    return "\n".join(lines)


def emptied(_: str) -> str:
    return ""


@pytest.fixture(scope="module")
def plan_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    bench = Bench()
    path = tmp_path_factory.mktemp("plan") / "step.plan"
    step = fitstep.compile(bench.plain_step, example=bench.example, budget="100%")
    step.plan.save(str(path))
    step.close()
    return path.read_text()


def test_an_intact_plan_is_run(plan_text: str, tmp_path: Path) -> None:
    path = tmp_path / "step.plan"
    path.write_text(plan_text)
    bench = Bench()
    step = fitstep.compile(bench.plain_step, example=bench.example, budget="100%", plan=str(path))
    bench.train(3, step)
    step.close()
    assert not differences(bench.bits(), Bench(3).bits())


@pytest.mark.parametrize(
    "damage",
    [cut_off, cut_off_at_the_end, from_another_version, edited_in_the_middle, emptied],
)
def test_a_damaged_plan_is_never_run(
    damage: Callable[[str], str], plan_text: str, tmp_path: Path
) -> None:
    path = tmp_path / "step.plan"
    path.write_text(damage(plan_text))
    bench = Bench(2)
    before = bench.identity()
    with pytest.raises(fitstep.PlanFileError) as raised:
        fitstep.compile(bench.plain_step, example=bench.example, budget="100%", plan=str(path))
    assert "step.plan" in str(raised.value)
    assert raised.value.todo
    assert bench.identity() == before
    bench.train(2)
    assert not differences(bench.bits(), Bench(4).bits())


def test_a_plan_of_another_step_is_refused(plan_text: str, tmp_path: Path) -> None:
    path = tmp_path / "step.plan"
    path.write_text(plan_text)
    bench = Bench()
    half = tuple(tensor[: ROWS // 2].contiguous() for tensor in bench.example)
    with pytest.raises(fitstep.PlanFileError):
        fitstep.compile(bench.plain_step, example=half, budget="100%", plan=str(path))
    bench.train(2)
    assert not differences(bench.bits(), Bench(2).bits())


def test_memory_that_no_machine_has_is_refused_with_what_to_do() -> None:
    bench = Bench(2)
    before = bench.identity()
    with pytest.raises(fitstep.FitstepError) as raised:
        fitstep.compile(bench.plain_step, example=bench.example, budget=2**47)
    assert "lower the budget or free memory" in str(raised.value)
    assert raised.value.todo == "nothing was changed"
    assert bench.identity() == before


def test_what_the_core_refuses_inside_a_call_is_one_of_our_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(2)
    step = fitstep.compile(bench.plain_step, example=bench.example)
    bench.train(1, step)

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise _core.CoreError("device", "there is no room")

    with monkeypatch.context() as patched:
        patched.setattr(fitstep.steps.programs.Programs, "add", refuse)
        bench.model.eval()  # Another variant.
        with pytest.raises(fitstep.FitstepError, match="there is no room\n  give another budget="):
            step(*bench.example)
    bench.model.train()
    bench.train(1, step)
    step.close()
    assert not differences(bench.bits(), Bench(4).bits())
