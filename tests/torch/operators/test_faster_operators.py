"""Our own operators make the bits of PyTorch's, and leave the generator as PyTorch's do."""

import pytest
import torch
from torch import Tensor, nn

import fitstep


@pytest.mark.parametrize("p", [0.0, 1e-20, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("count", [0, 1, 311, 312, 313, 511, 512, 513, 624, 5000])
def test_bernoulli_has_the_bits_of_pytorch_from_every_place_in_a_block(
    p: float, count: int
) -> None:
    ours, theirs = torch.Generator(), torch.Generator()
    for skipped in (0, 1, 310, 623):
        ours.manual_seed(7), theirs.manual_seed(7)
        torch.rand(skipped, generator=ours), torch.rand(skipped, generator=theirs)
        for _ in range(3):
            made = torch.ops.fitstep.bernoulli_(torch.empty(count), p, ours)
            assert torch.equal(made, torch.empty(count).bernoulli_(p, generator=theirs))
        assert torch.equal(ours.get_state(), theirs.get_state())


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_bernoulli_refuses_what_is_no_probability(p: float) -> None:
    with pytest.raises(RuntimeError, match=r"p to be in \[0, 1\]"):
        torch.ops.fitstep.bernoulli_(torch.empty(3), p, None)


def test_a_program_with_dropout_uses_it() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.dropout(model(x), 0.2).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    compiled = fitstep.compile(step, example=(torch.randn(4, 8),))
    text = str(compiled.program)
    assert "fitstep::bernoulli_" in text
    assert "aten::bernoulli_" not in text
    assert compiled.check().steps == 3
    compiled.close()
