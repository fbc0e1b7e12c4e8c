"""A call that needs a larger arena than there is, and what stays where there is no room for it."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from fitstep.memory import session as sessions
from fitstep_kit.measures.bits import differences, fingerprint
from nth_call import NthCall
from torch import Tensor, nn

import fitstep
from fitstep import _core


def make() -> tuple[nn.Module, Callable[..., Tensor]]:
    torch.manual_seed(0)
    model = nn.ModuleList([nn.Linear(16, 64), nn.Linear(64, 64), nn.Linear(64, 4)])
    optimizer = torch.optim.Adam(model.parameters(), 0.01)

    def step(x: Tensor, more: bool = False) -> Tensor:
        hidden = model[0](x).relu()
        loss = model[2](model[1](hidden) if more else hidden).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return model, step


def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """No further arena can be opened."""

    def refuse(_: Any) -> None:
        raise _core.CoreError("memory", "cannot reserve 1 TiB; lower the budget")

    monkeypatch.setattr(sessions.Session, "_open_arena", refuse)


def test_steps_go_on_where_there_is_no_room_for_a_larger_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (model, function), (plain, plain_step) = make(), make()
    usual, huge = torch.ones(8, 16), torch.ones(4000, 16)
    with closing(fitstep.compile(function, (usual,), audits="off")) as step:
        step(usual)
        peak = step.report().plain_peak_bytes
        with monkeypatch.context() as context:
            no_memory(context)
            with pytest.raises(fitstep.errors.FitstepError, match="cannot reserve"):
                step(huge)
            assert "peak" in str(step.report()), "also without an arena"
        plain_step(usual)
        assert torch.equal(step(usual), plain_step(usual))
        assert step.report().plain_peak_bytes == peak, "what has never run does not count"
        step(huge)
        plain_step(huge)
        assert differences(fingerprint(it=model), fingerprint(it=plain)) == []


def test_nobody_elses_memory_is_in_the_arena_where_measuring_is_refused_memory() -> None:
    script = Path(__file__).parents[1] / "little_memory.py"
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    refused, *others = ended.stdout.splitlines()
    assert others == ["grown False", "changed []", "differences []"]
    assert int(refused.split()[1]) > 4, "most of the limits are too low"


def test_a_step_goes_on_where_another_one_cannot_be_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (model, function), (plain, plain_step) = make(), make()
    usual, huge = torch.ones(8, 16), torch.ones(4000, 16)

    def evaluate(x: Tensor) -> Tensor:
        with torch.no_grad():
            return model[2](model[1](model[0](x))).sum()  # type: ignore[index]

    with closing(fitstep.compile(function, (usual,), audits="off")) as step:
        step(usual)
        plain_step(usual)
        with monkeypatch.context() as context:
            no_memory(context)
            with pytest.raises(fitstep.errors.FitstepError, match="cannot reserve"):
                fitstep.compile(evaluate, (huge,))
        for _ in range(2):
            assert torch.equal(step(usual), plain_step(usual))
        assert differences(fingerprint(it=model), fingerprint(it=plain)) == []


def test_steps_that_share_a_model_do_so_also_without_an_arena(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One session, or gradients that one step has dropped would be another's for ever."""

    def norm_of(model: nn.Module) -> Callable[[Tensor], Tensor]:
        def norm(x: Tensor) -> Tensor:
            grads = [p.grad for p in model.parameters()]
            return x.sum() * 0 + sum(-1.0 if g is None else g.square().sum() for g in grads)

        return norm

    (model, function), (plain, plain_step) = make(), make()
    usual, huge = torch.ones(8, 16), torch.ones(4000, 16)
    step = fitstep.compile(function, (usual, True), audits="off")
    step(usual, True)
    plain_step(usual, True)
    with monkeypatch.context() as context:
        no_memory(context)
        with pytest.raises(fitstep.errors.FitstepError, match="cannot reserve"):
            step(huge, True)
    norm, plain_norm = fitstep.compile(norm_of(model), (usual,), audits="off"), norm_of(plain)
    with pytest.raises(fitstep.errors.FitstepError, match="dropped it"):
        norm(usual)  # The gradients of before were dropped when nobody had asked for them.
    for _ in range(3):
        assert torch.equal(step(usual, True), plain_step(usual, True))
        assert torch.equal(norm(usual), plain_norm(usual))
    step.close()
    with pytest.raises(fitstep.errors.FitstepError, match="closed"):
        norm(usual)


def test_a_number_that_changes_where_memory_is_refused_is_an_error_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def function(x: Tensor, slope: float) -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.leaky_relu(model(x), slope).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    x = torch.ones(8, 16)
    with closing(fitstep.compile(function, (x, 0.1), audits="off")) as step:
        step(x, 0.1)
        with monkeypatch.context() as context:

            def refuse(*_: Any) -> None:
                raise _core.CoreError("memory", "cannot reserve 1 TiB; lower the budget")

            context.setattr(sessions.Session, "open", refuse)
            with pytest.raises(fitstep.errors.FitstepError, match="cannot reserve"):
                step(x, 0.3)
        step(x, 0.3)


def test_a_plan_from_a_file_is_for_the_homes_that_there_were(tmp_path: Path) -> None:
    usual = torch.ones(8, 16)
    path = str(tmp_path / "it.plan")
    _, function = make()
    with closing(fitstep.compile(function, (usual,), audits="off")) as step:
        step.plan.save(path)
    (model, function), (plain, plain_step) = make(), make()
    with closing(fitstep.compile(function, (usual,), plan=path, audits="off")) as step:
        for more in (False, True, False, True):
            assert torch.equal(step(usual, more), plain_step(usual, more))
        assert differences(fingerprint(it=model), fingerprint(it=plain)) == []


@pytest.mark.parametrize("policy", ["auto", "offload"])
def test_codes_are_looked_at_again_where_all_programs_are_made_anew(policy: str) -> None:
    def make_two() -> tuple[nn.Module, Callable[[Tensor, Tensor], float]]:
        torch.manual_seed(0)
        first = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(6)])
        second = nn.Linear(64, 64)
        optimizer = torch.optim.Adam(first.parameters())
        other = torch.optim.SGD(second.parameters(), lr=0.1)

        def step(x: Tensor, y: Tensor) -> float:
            optimizer.zero_grad()
            loss = first(x).square().mean()
            loss.backward()
            optimizer.step()
            value = loss.item()
            other.zero_grad()
            loss = second(y).square().mean()
            loss.backward()
            other.step()
            return value + loss.item()

        return nn.ModuleList([first, second]), step

    (model, function), (plain, plain_step) = make_two(), make_two()
    small = torch.ones(128, 64), torch.ones(4, 64)
    large = torch.ones(130, 64), torch.ones(9000, 64)
    with closing(
        fitstep.compile(
            function, small, policy=policy, host_budget="64MiB", host_codes=True, audits="off"
        )
    ) as step:
        for arguments in (small, small, large, small, large):
            shown = model[0][0][0].weight.detach().numpy()  # type: ignore[index]
            assert step(*arguments) == plain_step(*arguments)
            assert shown.shape == (64, 64)
        assert differences(fingerprint(it=model), fingerprint(it=plain)) == []


def test_a_call_that_grows_is_refused_memory_at_any_place(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    stride = 11 if request.config.getoption("--every-pair") else 139
    nth = NthCall(monkeypatch)
    usual, huge = torch.ones(8, 16), torch.ones(600, 16)
    (model, function), (plain, plain_step) = make(), make()
    refused: list[str] = []
    for at in range(stride, 100_000, stride):
        with closing(fitstep.compile(function, (usual,), audits="off")) as step:
            step(usual)
            plain_step(usual)
            nth.arm(at)
            before = fingerprint(it=model)
            try:
                step(huge, True)
            except MemoryError:
                assert differences(before, fingerprint(it=model)) == [], nth.name
            else:
                plain_step(huge, True)
            if not nth.name:
                break
            refused.append(nth.name)
            for x, more in ((usual, False), (huge, True), (usual, False)):
                assert torch.equal(step(x, more), plain_step(x, more)), nth.name
            assert differences(fingerprint(it=model), fingerprint(it=plain)) == [], nth.name
    assert len(refused) > 5
