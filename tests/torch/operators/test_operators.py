"""Operators that need more than a schema says: each has plain PyTorch's bits, in the least budget
too."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from fitstep_kit.measures.bits import differences, fingerprint
from torch import Tensor, nn

import fitstep

ROWS, FEATURES, CLASSES = 6, 8, 5
Loss = Callable[[Tensor, Tensor], Tensor]


def _solve(outputs: Tensor, targets: Tensor) -> Tensor:
    square = outputs.T @ outputs + torch.eye(CLASSES)
    return torch.linalg.solve(square, targets.T).mean()


def _spectrum(outputs: Tensor, targets: Tensor) -> Tensor:
    z = torch.fft.fft(outputs)
    return ((z * z.conj()).real - (z - targets).conj().imag).square().mean()


def _sampled(outputs: Tensor, targets: Tensor) -> Tensor:
    picked = torch.multinomial(outputs.softmax(1).detach(), 1)[:, 0]
    return F.cross_entropy(outputs * torch.bernoulli(torch.full_like(outputs, 0.5)), picked)


LOSSES: dict[str, Loss] = {
    "mse": F.mse_loss,
    "smooth_l1": F.smooth_l1_loss,
    "soft_margin": lambda z, t: F.soft_margin_loss(z, t.sign()),
    "binary_cross_entropy": lambda z, t: F.binary_cross_entropy(z.sigmoid(), t.sigmoid()),
    "unfold": lambda z, t: F.unfold(z[None, None], 3).square().mean(),
    "window": lambda z, t: (z * torch.hann_window(CLASSES)).mean(),
    "random_choices": _sampled,
    "linear_solve": _solve,
    "complex_conjugates": _spectrum,
}


def _trained(model: nn.Module, loss_of: Loss, budget: int | str | None) -> dict[str, str]:
    """The bits after 4 steps; without a budget those of plain PyTorch."""
    torch.manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    x, targets = torch.randn(ROWS, 4, FEATURES), torch.randn(ROWS, CLASSES)

    def step(x: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(model(x), targets)
        loss.backward()
        optimizer.step()
        return loss

    run = step
    if budget is not None:
        run = fitstep.compile(step, example=(x, targets), budget=budget)
    losses = [run(x, targets).detach().clone() for _ in range(4)]
    bits = fingerprint(
        model=model, optimizer=optimizer, losses=losses, random=torch.get_rng_state()
    )
    if budget is not None:
        run.close()
    return bits


def _check(make: Callable[[], nn.Module], loss_of: Loss) -> None:
    torch.manual_seed(0)
    model = make()
    expected = _trained(copy.deepcopy(model), loss_of, None)
    assert not differences(_trained(copy.deepcopy(model), loss_of, "400%"), expected)
    with pytest.raises(fitstep.BudgetTooSmall) as refused:
        _trained(copy.deepcopy(model), loss_of, 1)
    least = refused.value.least_found_bytes
    assert not differences(_trained(copy.deepcopy(model), loss_of, least), expected)


class _Mean(nn.Module):
    """One row of classes per row of inputs."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.head = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        inside = self.inner(x)
        return self.head((inside[0] if isinstance(inside, tuple) else inside).mean(1))


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str) -> None:
    _check(lambda: _Mean(nn.Tanh()), LOSSES[name])


@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN, nn.LSTM])
def test_recurrent_layers_with_the_batch_first(kind: type[nn.RNNBase]) -> None:
    """They transpose their result in place."""
    _check(lambda: _Mean(kind(FEATURES, FEATURES, num_layers=2, batch_first=True)), F.mse_loss)


def test_a_step_may_return_its_input_and_a_parameter() -> None:
    layer = nn.Linear(FEATURES, CLASSES)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        optimizer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss, x, layer.weight

    x = torch.randn(ROWS, FEATURES)
    compiled = fitstep.compile(step, example=(x,), budget="400%")
    _, same, weight = compiled(x)
    assert torch.equal(same, x)
    assert torch.equal(weight, layer.weight)
    compiled(x)
    assert torch.equal(weight, layer.weight), "the parameter's own memory, as with plain PyTorch"
    assert not weight.requires_grad
    compiled.close()


def test_a_saved_plan_is_good_after_more_steps_and_at_another_rate(tmp_path: Path) -> None:
    """The numbers that an optimizer computes anew in every step are not part of the program."""
    layer = nn.Linear(FEATURES, CLASSES)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    x = torch.randn(ROWS, FEATURES)
    step(x)
    compiled = fitstep.compile(step, example=(x,), budget="400%")
    compiled(x)
    compiled.plan.save(tmp_path / "step.plan")
    compiled.close()
    step(x)
    optimizer.param_groups[0]["lr"] = 0.01
    again = fitstep.compile(step, example=(x,), budget="400%", plan=tmp_path / "step.plan")
    again(x)
    again.close()


def test_what_half_of_a_gradient_has_shown_of_its_strides_holds_for_the_whole() -> None:
    """A convolution's gradient is split; with one thread its weight's has other strides than any
    rule says, from some size on."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        patches, norm = nn.Conv2d(3, 8, 4, 4), nn.LayerNorm(8)
        block = nn.Sequential(nn.Conv2d(8, 16, 1), nn.GELU(), nn.Conv2d(16, 8, 1))
        model = nn.ModuleList([patches, norm, block])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            maps = norm(patches(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
            loss = block(maps).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        for size in (16, 32, 64):  # Steps that are given up, as in a notebook.
            fitstep.compile(step, example=(torch.randn(2, 3, size, size),))
    finally:
        torch.set_num_threads(threads)
