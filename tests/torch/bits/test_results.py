"""What a compiled step returns is the user's own, and has the bits that plain PyTorch returns."""

from typing import Any

import torch
from bench import ROWS, Bench
from fitstep_kit.measures.bits import differences, fingerprint
from torch import Tensor, nn

import fitstep
from fitstep import _core


def train(bench: Bench, step: Any, steps: int = 4) -> list[Any]:
    return [step(*bench.example) for _ in range(steps)]


def returning_everything(bench: Bench) -> Any:
    def step(inputs: Tensor, targets: Tensor) -> dict[str, Any]:
        bench.optimizer.zero_grad()
        logits = bench.model(inputs)
        loss = nn.functional.cross_entropy(logits, targets)
        loss.backward()
        bench.optimizer.step()
        return {"loss": loss, "parts": (logits.detach(), logits.argmax(1)), "rows": len(inputs)}

    return step


def returning_a_number(bench: Bench) -> Any:
    def step(inputs: Tensor, targets: Tensor) -> float:
        return bench.plain_step(inputs, targets).item()

    return step


def test_dicts_and_tuples_come_back_as_they_are() -> None:
    ours = Bench()
    step = fitstep.compile(returning_everything(ours), example=ours.example, budget="100%")
    results = train(ours, step)
    step.close()
    plain = Bench()
    expected = train(plain, returning_everything(plain))
    assert not differences(fingerprint(results=results), fingerprint(results=expected))
    assert type(results[0]["parts"]) is tuple


def test_results_stay_when_later_steps_run_and_after_close() -> None:
    bench = Bench()
    step = fitstep.compile(returning_everything(bench), example=bench.example, budget="100%")
    first = step(*bench.example)
    kept = fingerprint(first=first)
    train(bench, step)
    step.close()
    assert not differences(kept, fingerprint(first=first))
    assert not first["loss"].requires_grad
    addresses = {p.untyped_storage().data_ptr() for p in bench.model.parameters()}
    assert first["parts"][0].untyped_storage().data_ptr() not in addresses


def test_a_numpy_view_stays_true_when_its_step_is_closed() -> None:
    bench = Bench()
    step = fitstep.compile(bench.plain_step, example=bench.example, budget="100%")
    train(bench, step)
    parameter = next(iter(bench.model.parameters()))
    view = parameter.detach().numpy()
    step.close()
    train(bench, bench.plain_step)
    assert (view == parameter.detach().numpy()).all()
    view[...] = 1.0
    assert bool((parameter == 1.0).all())


def test_closing_needs_no_memory_and_gives_the_rest_back() -> None:
    bench = Bench()
    step = fitstep.compile(bench.plain_step, example=bench.example, budget="100%")
    train(bench, step)
    addresses = [p.data_ptr() for p in bench.model.parameters()]
    _core.reset_counted_peak()
    before = _core.counted_live_bytes()
    step.close()
    assert _core.counted_peak_bytes() == before
    assert addresses == [p.data_ptr() for p in bench.model.parameters()]
    again = fitstep.compile(bench.plain_step, example=bench.example, budget="100%")
    train(bench, again)
    again.close()
    plain = Bench()
    train(plain, plain.plain_step, 8)
    assert not differences(bench.bits(), plain.bits())


def test_a_number_is_read_after_the_step() -> None:
    ours = Bench()
    step = fitstep.compile(returning_a_number(ours), example=ours.example, budget="100%")
    numbers = train(ours, step)
    step.close()
    plain = Bench()
    assert numbers == train(plain, returning_a_number(plain))
    assert isinstance(numbers[0], float)


def test_inputs_may_lie_anywhere() -> None:
    """Views into a larger tensor, at another offset in every call; they are not written."""
    images, labels = torch.randn(4 * ROWS, 64), torch.randint(0, 4, (4 * ROWS,))
    before = fingerprint(images=images)
    batches = [(images[i : i + ROWS], labels[i : i + ROWS]) for i in range(0, 4 * ROWS, ROWS)]
    ours = Bench()
    step = fitstep.compile(ours.plain_step, example=batches[0], budget="100%")
    losses = [step(*batch) for batch in batches]
    step.close()
    assert not differences(fingerprint(images=images), before)
    ours_bits = ours.bits()
    plain = Bench()
    expected = [plain.plain_step(*batch) for batch in batches]
    assert not differences(fingerprint(losses=losses), fingerprint(losses=expected))
    assert not differences(ours_bits, plain.bits())


def test_aliases_of_parameters_stay_true() -> None:
    """A state dict taken before compiling shows every later step, also after close."""
    bench = Bench()
    alias, state = bench.model[4].weight.detach(), bench.model.state_dict()
    step = fitstep.compile(bench.plain_step, example=bench.example, budget="100%")
    for _ in range(2):
        step(*bench.example)
        assert torch.equal(alias, bench.model[4].weight)
        assert torch.equal(state["1.running_mean"], bench.model[1].running_mean)
    step.close()
    assert torch.equal(alias, bench.model[4].weight)
    plain = Bench()
    plain.train(2)
    assert torch.equal(alias, plain.model[4].weight)
