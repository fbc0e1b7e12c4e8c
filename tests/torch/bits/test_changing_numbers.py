"""Numbers of Python that are others in each call: the programs stay, once it is known of them."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fitstep

CALLS = 10

USES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "mul": lambda y, n: y * n,
    "div": lambda y, n: y / n,
    "other way round": lambda y, n: n - y,
    "alpha": lambda y, n: torch.add(y, y, alpha=n),
    "clamp": lambda y, n: y.clamp(min=-n, max=n),
    "threshold": lambda y, n: F.threshold(y, n, n),
    "pow": lambda y, n: y.tanh().pow(n % 4 + 1),
    "comparison": lambda y, n: y * (y > n / 8) + y * (y > n),
    "truth value": lambda y, n: y * (n % 3 > 1),
    "where": lambda y, n: y + torch.where(y > 0, n, 0),
    "fill": lambda y, n: y + torch.full((4,), n) + torch.full_like(y, n),
    "masked_fill": lambda y, n: y.masked_fill(y > 0, n),
    "whole numbers' remainder": lambda y, n: y + (torch.arange(4) * n) % (n + 1),
    "foreach": lambda y, n: sum(torch._foreach_mul([y, y.sum()], [n, n + 1]), y),
    "complex": lambda y, n: y + (y * complex(1, n)).real + (y * 1j**n).imag,
    "tril": lambda y, n: y.tril(n % 5 - 2) + y.triu(n % 3),
    "randint": lambda y, n: y + torch.randint(n, 2 * n + 3, (4,)),
    "random_": lambda y, n: y + torch.empty(4).random_(n, 2 * n + 3),
    "multiples": lambda y, n: y + torch.empty(4, dtype=torch.int64).fill_(n) // (n + 1),
}


class Training:
    def __init__(self, use: Callable[[Tensor, int], Tensor]) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.use = use
        self.count = 0

    def step(self, x: Tensor) -> Tensor:
        self.count += 1
        self.optimizer.zero_grad()
        loss = self.use(self.model(x), self.count).square().mean().tanh()
        loss.backward()
        self.optimizer.step()
        return loss

    def outcome(self, step: Callable[[Tensor], Tensor]) -> list[Tensor]:
        torch.manual_seed(1)
        losses = [step(torch.randn(6, 8)).detach() for _ in range(CALLS)]
        return [*losses, *self.model.parameters()]


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_whole_numbers_that_change_leave_the_programs_as_they_are(
    use: Callable[[Tensor, int], Tensor],
) -> None:
    plain, ours = Training(use), Training(use)
    expected = plain.outcome(plain.step)
    step = fitstep.compile(ours.step, (torch.randn(6, 8),), progress=False, audits="off")
    made = []

    def counted(x: Tensor) -> Tensor:
        loss: Tensor = step(x)
        made.append({id(variant) for variant in step.variants})
        return loss

    found = ours.outcome(counted)
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
    assert all(one == made[2] for one in made[2:]), "made when the number changed first, then kept"
    step.close()


def test_whole_numbers_that_are_sizes_make_programs() -> None:
    def use(y: Tensor, n: int) -> Tensor:
        return y + torch.rand(n).sum()

    plain, ours = Training(use), Training(use)
    expected = plain.outcome(plain.step)
    step = fitstep.compile(ours.step, (torch.randn(6, 8),), progress=False, audits="off")
    found = ours.outcome(step)
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
    assert len(step.variants) >= 8, "most of the last of them, by another size each"
    step.close()


def overlaps(one: Tensor, others: Tensor) -> Tensor:
    """Shares of their union that a box (4,) and boxes (n, 4) have in common: (n,)."""
    low, high = torch.max(one[:2], others[:, :2]), torch.min(one[2:], others[:, 2:])
    common = (high - low).clamp(min=0).prod(1)
    areas = (others[:, 2:] - others[:, :2]).prod(1) + (one[2:] - one[:2]).prod()
    return common / (areas - common)


def kept(boxes: Tensor, scores: Tensor) -> list[int]:
    order = scores.argsort(descending=True)
    found = []
    while order.numel() > 0:
        found.append(int(order[0]))
        order = order[1:][overlaps(boxes[order[0]], boxes[order[1:]]) < 0.3]
    return found


def test_a_loop_over_what_data_leaves_makes_no_program_in_each_round() -> None:
    def outcome(is_compiled: bool) -> tuple[list[object], int]:
        torch.manual_seed(0)
        model = nn.Linear(8, 5)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

        def step(x: Tensor) -> tuple[Tensor, list[int]]:
            optimizer.zero_grad()
            result = model(x)
            loss = result.square().mean()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                corner = 3 * x[:, :2].abs()
                boxes = torch.cat([corner, corner + 1 + result[:, :2].abs()], 1)
                return loss.detach(), kept(boxes, result[:, 4])

        run = fitstep.compile(step, (torch.ones(24, 8),), progress=False, audits="off")
        torch.manual_seed(1)
        batches = [torch.randn(24, 8) for _ in range(CALLS)]
        found = [(run if is_compiled else step)(x) for x in batches]
        count = len(run.variants)
        run.close()
        return [item for one in found for item in one] + list(model.parameters()), count

    (expected, _), (ours, count) = outcome(False), outcome(True)
    assert all(
        torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else a == b
        for a, b in zip(expected, ours, strict=True)
    )
    rounds = sum(len(one) for one in expected if isinstance(one, list))
    assert count <= CALLS + 2 < rounds / 4, "the best box is at another place in each call"
