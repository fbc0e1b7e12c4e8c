"""What docs/reference/failures.md promises and no other test shows: calls from inside, and the end
of the process while copies fly."""

import copy
import re
import subprocess
import sys
import weakref
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import torch
from fitstep_kit.measures.bits import differences, fingerprint
from fitstep_kit.subjects.jobs import Job, mlp, offloaded_plan
from torch import Tensor, nn

import fitstep

ROOT = Path(__file__).resolve().parents[3]
inside: list[object] = []  # What the op below calls, once.


@torch.library.custom_op("fitstep_test::calls_back", mutates_args=())
def calls_back(x: Tensor) -> Tensor:
    """A copy of x. Calls what is in `inside`, and leaves there what that raised."""
    if inside and callable(inside[0]):
        try:
            inside[0]()
        except fitstep.FitstepError as error:
            inside[0] = error.with_traceback(None)  # Its frames hold x.
    return x.clone()


@calls_back.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


calls_back.register_autograd(lambda _ctx, grad: grad)
fitstep.declare_pure(calls_back)  # It shall run in programs.


class CallsBack(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = calls_back(x)
        return found


def job() -> Job:
    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(64, 64), CallsBack(), nn.GELU(), nn.Linear(64, 8))

    return Job(make, torch.linspace(-1, 1, 32 * 64).reshape(32, 64), 8)


def test_a_step_that_calls_itself_is_told_and_goes_on() -> None:
    ours, plain = job(), job()
    step = fitstep.compile(ours.step, (ours.x, ours.y))
    inside[:] = [lambda: step(ours.x, ours.y)]
    found = ours.train(step, 1)
    assert "calls itself" in str(inside.pop())
    assert differences(found, plain.train(plain.step, 1)) == []
    assert differences(ours.train(step, 2), plain.train(plain.step, 2)) == []
    step.close()


def test_a_step_can_be_neither_closed_nor_compiled_anew_from_inside() -> None:
    """Both would take the arena away from under the operators behind it."""
    ours, plain = job(), job()
    step = fitstep.compile(ours.step, (ours.x, ours.y))
    for call in (step.close, lambda: fitstep.compile(ours.step, (ours.x, ours.y))):
        inside[:] = [call]
        found = ours.train(step, 1)
        assert "while none runs" in str(inside.pop())
        assert differences(found, plain.train(plain.step, 1)) == []
    step.close()


def fail() -> None:
    raise RuntimeError("on purpose")


def test_a_step_that_stops_early_names_only_what_it_has_written() -> None:
    """Batch normalisation writes its statistics in the forward part; parameters come later."""

    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), CallsBack(), nn.Linear(64, 8))

    x = torch.linspace(-1, 1, 32 * 64).reshape(32, 64)
    ours, plain = Job(make, x, 8), Job(make, x, 8)
    step = fitstep.compile(ours.step, (ours.x, ours.y))
    assert differences(ours.train(step, 1), plain.train(plain.step, 1)) == []
    statistics = copy.deepcopy(ours.model[1].state_dict())
    inside[:] = [fail]
    with pytest.raises(fitstep.StepFailed, match="load a checkpoint") as failed:
        step(ours.x, ours.y)
    inside.clear()
    names = {"running_mean", "running_var", "num_batches_tracked"}
    assert {name.rpartition(".")[2] for name in failed.value.unusable} <= names
    ours.model[1].load_state_dict(statistics)
    assert differences(ours.train(step, 2), plain.train(plain.step, 2)) == []
    step.close()


def test_a_step_that_stops_behind_a_write_to_its_input_says_so() -> None:
    ours = job()

    def train_step(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2)
        return ours.step(x, y)

    step = fitstep.compile(train_step, (ours.x.clone(), ours.y))

    before = copy.deepcopy(ours.model.state_dict())
    x = ours.x.clone()
    inside[:] = [fail]
    with pytest.raises(fitstep.StepFailed, match="on purpose") as failed:
        step(x, ours.y)
    inside.clear()
    assert not torch.equal(x, ours.x)
    assert len(failed.value.unusable) == 1
    assert "create them again" in str(failed.value)
    assert differences(fingerprint(model=ours.model), fingerprint(model=before)) == []
    step.close()


ENDS = """
import sys, threading, time
from fitstep_kit.subjects.jobs import compiled, mlp
from pathlib import Path

job = mlp()
step = compiled(job, "900%", plan=Path({plan!r}), disk_budget="900%", disk_dir={folder!r})
runs = []

def go_on():
    while True:  # Kept: a thread that drops a tensor while Python ends is aborted by PyTorch.
        runs.append(step(job.x, job.y))

threading.Thread(target=go_on, daemon=True).start()
while len(runs) < {least}:
    time.sleep(0.001)
{end}
"""


@pytest.mark.parametrize(
    ("end", "code"), [("", 0), ("sys.exit(3)", 3), ("raise ValueError('the end')", 1)]
)
def test_a_process_may_end_while_a_step_runs(end: str, code: int, tmp_path: Path) -> None:
    plan = offloaded_plan(mlp, tmp_path / "disk.plan", (2,), disk_budget="900%")
    folder = tmp_path / "disk"
    folder.mkdir()
    for least in (1, 4):
        text = ENDS.format(
            plan=str(plan),
            folder=str(folder),
            least=least,
            end=end,
        )
        ended = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False
        )
        assert ended.returncode == code, ended.stderr
        assert not re.search("Fatal|terminate|Segmentation|FATAL", ended.stderr), ended.stderr
        assert list(folder.iterdir()) == []


def test_every_test_that_the_table_names_is_there() -> None:
    table = (ROOT / "docs" / "reference" / "failures.md").read_text()
    sources = [*ROOT.glob("tests/**/*.*"), *ROOT.glob("python/tests/**/*.py")]
    sources += [*ROOT.glob("fitstep/run/*_test.cpp")]
    text = "\n".join(path.read_text() for path in sources if path.suffix in (".py", ".cpp"))
    named = re.findall(r"`(test_\w+|[A-Z]\w+\.[A-Z]\w+|benchmarks/\w+/\w+\.py)`", table)
    assert len(named) > 20
    for name in named:
        if name.startswith("benchmarks/"):
            assert (ROOT / name).exists(), name
        elif "." in name:
            assert f"({name.replace('.', ', ')})" in text, name
        else:
            assert f"def {name}(" in text, name


def test_behind_a_value_that_the_step_asked_for_what_came_before_has_happened() -> None:
    def make() -> tuple[nn.Module, nn.Module, object]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
        head = nn.Linear(8, 4)
        optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)

        def step(x: Tensor, y: Tensor) -> Tensor:
            optimizer.zero_grad()
            hidden = model(x)
            hidden.mean().item()
            loss = nn.functional.cross_entropy(head(hidden), y)
            loss.backward()
            optimizer.step()
            return loss

        return model, head, step

    x, y = torch.linspace(-1, 1, 48).reshape(6, 8), torch.tensor([0, 1, 2, 3, 0, 1])
    (model, head, function), (plain, plain_head, plain_step) = make(), make()
    step = fitstep.compile(function, (x, y), audits="off")
    step(x, y)
    plain_step(x, y)
    with pytest.raises(fitstep.StepFailed, match="asked for a tensor's value stays") as failed:
        step(x, y + 99)
    with pytest.raises(IndexError):
        plain_step(x, y + 99)
    assert failed.value.unusable == ()
    assert any("running_mean" in name for name in failed.value.changed)
    assert differences(fingerprint(it=model), fingerprint(it=plain)) == []
    assert differences(fingerprint(it=head), fingerprint(it=plain_head)) == []
    step.close()


def handmade(parameters: list[nn.Parameter]) -> Callable[[], None]:
    """Momentum whose first call makes its state, with a bias correction that counts calls."""
    state: dict[nn.Parameter, dict[str, Tensor]] = {}

    @torch.no_grad()
    def update() -> None:
        for p in parameters:
            if p not in state:
                state[p] = {"step": torch.tensor(0.0), "mean": torch.zeros_like(p)}
            own = state[p]
            own["step"] += 1
            own["mean"].mul_(0.9).add_(p.grad, alpha=0.1)  # type: ignore[arg-type]
            p.sub_(own["mean"] / (1 - 0.9 ** own["step"]))

    return update


def adam(parameters: list[nn.Parameter]) -> Callable[[], None]:
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    return lambda: optimizer.step()


@pytest.mark.parametrize("optimizer", [handmade, adam])
def test_a_first_call_that_fails_counts_no_step(
    optimizer: Callable[[list[nn.Parameter]], Callable[[], None]],
) -> None:
    """It makes the optimizer's state; counts of steps have run at once when the kernel fails."""

    def make() -> tuple[nn.Module, Callable[..., Tensor]]:
        torch.manual_seed(0)
        layer = nn.Linear(8, 4)
        update = optimizer(list(layer.parameters()))

        def step(x: Tensor, y: Tensor) -> Tensor:
            layer.zero_grad()
            loss = nn.functional.cross_entropy(layer(x), y)
            loss.backward()
            update()
            return loss

        return layer, step

    x, y = torch.linspace(-1, 1, 48).reshape(6, 8), torch.tensor([0, 1, 2, 3, 0, 1])
    (layer, function), (plain, plain_step) = make(), make()
    step = fitstep.compile(function, (x, y), audits="off")
    with pytest.raises(fitstep.StepFailed, match="nothing was changed"):
        step(x, y + 99)
    for _ in range(3):
        assert torch.equal(step(x, y), plain_step(x, y).detach())
        assert differences(fingerprint(it=layer), fingerprint(it=plain)) == []
    step.close()


def test_a_later_part_that_does_not_fit_says_what_stays() -> None:
    layer = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        if loss.item() != 1:  # Compile takes it for that.
            return layer(x.repeat(10_000, 1)).square().mean()
        return loss

    x = torch.ones(6, 8)
    compiled = fitstep.compile(step, (x,), "4KiB", audits="off")
    before = layer.weight.detach().clone()
    with pytest.raises(fitstep.BudgetTooSmall, match="it has changed") as raised:
        compiled(x)
    assert not torch.equal(layer.weight, before)
    assert any(name.endswith("weight") for name in raised.value.changed)
    compiled.close()


def test_the_step_raises_behind_calls_that_cannot_run() -> None:
    def make() -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
        torch.manual_seed(0)
        layers = [nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.GELU()) for _ in range(6)]
        model = nn.Sequential(*layers)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            if x[0, 0] > 90:
                raise KeyError("no label")
            loss.backward()
            optimizer.step()
            return loss

        return model, step

    model, function = make()
    usual, odd = torch.ones(64, 16), torch.full((64, 16), 99.0)
    with closing(fitstep.compile(function, (usual,), "60%", audits="off")) as step:
        step(usual)
        before = fingerprint(it=model)
        with pytest.raises(fitstep.StepFailed, match=r"raised KeyError.* cannot run") as e:
            step(odd)
        assert isinstance(e.value.__cause__, KeyError)
        assert "raise before the model is called, or pass budget=" in str(e.value)
        assert differences(before, fingerprint(it=model)) == []
        step(usual)

    model, function = make()
    plain, plain_step = make()
    with closing(fitstep.compile(function, (usual,), "300%", audits="off")) as step:
        for run in (step, plain_step):
            run(usual)
            with pytest.raises(KeyError):
                run(odd)
            run(usual)
        assert differences(fingerprint(it=model), fingerprint(it=plain)) == []


def test_of_a_step_that_has_failed_only_the_error_keeps_its_tensors() -> None:
    layer = nn.Linear(8, 4)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = nn.functional.cross_entropy(layer(x), y)
        return loss * loss.item()

    y = torch.tensor([0, 1, 2, 3, 0, 1])
    compiled = fitstep.compile(step, (torch.ones(6, 8), y), audits="off")
    given = torch.ones(6, 8)
    is_there = weakref.ref(given)
    try:
        compiled(given, y + 99)
    except fitstep.StepFailed:
        del given
    assert is_there() is None
    compiled.close()


def test_a_step_that_fails_beside_a_sparse_gradient_says_so() -> None:
    torch.manual_seed(0)
    table, layer = nn.Embedding(10, 4, sparse=True), nn.Linear(4, 4)
    optimizer = torch.optim.SGD([*layer.parameters(), *table.parameters()], lr=0.1)

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(layer(table(x)), y.clamp(max=3))
        loss.backward()
        beside = nn.functional.cross_entropy(layer.weight.detach(), y[:4])
        optimizer.step()
        return loss + beside

    x, y = torch.arange(6), torch.tensor([0, 1, 2, 3, 0, 1])
    compiled = fitstep.compile(step, (x, y), audits="off")
    compiled(x, y)
    with pytest.raises(fitstep.StepFailed, match="out of bounds"):
        compiled(x, y + 99)
    compiled(x, y)
    compiled.close()
