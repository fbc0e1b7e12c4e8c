"""Addresses of tensors, which a step may ask for and may not have kept."""

import ctypes
import gc
from contextlib import closing

import pytest
import torch
from fitstep.errors import CaptureError
from fitstep.memory import seen_memory
from garbage import no_tensor_in_cycles
from torch import nn

import fitstep


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Linear(16, 16) for _ in range(6)])


def descend(net: nn.Module) -> None:
    with torch.no_grad():
        for p in net.parameters():
            p -= 0.1 * p.grad
            p.grad = None


def test_an_address_kept_from_before_is_refused_by_name() -> None:
    net = model()
    names = {p.untyped_storage().data_ptr(): n for n, p in net.named_parameters()}

    def train(x: torch.Tensor) -> str:
        net(x).sum().backward()
        descend(net)
        return names.get(net[0].weight.untyped_storage().data_ptr(), "")

    before = [p.data_ptr() for p in net.parameters()]
    with pytest.raises(CaptureError, match=r"names\[\d+\] holds an address in the memory of") as e:
        fitstep.compile(train, (torch.ones(2, 16),), budget="16MiB")
    assert "id(tensor)" in str(e.value)
    assert before == [p.data_ptr() for p in net.parameters()]
    assert train(torch.ones(2, 16)) == "0.weight"


def test_numbers_that_are_no_addresses_of_moving_tensors_are_let_alone() -> None:
    net, other = model(), torch.ones(4)
    kept = [other.data_ptr(), id(net[0].weight), 2**63, -1, True, ctypes.c_void_p(None), None]

    def train(x: torch.Tensor) -> int:
        net(x).sum().backward()
        descend(net)
        return len(kept)

    step = fitstep.compile(train, (torch.ones(2, 16),), budget="16MiB")
    assert step(torch.ones(2, 16)) == 7
    step.close()


def test_a_preview_gives_tensors_that_share_memory_one_address() -> None:
    net = model()
    seen: list[bool] = []

    def train(x: torch.Tensor) -> torch.Tensor:
        loss = net(x).square().mean()
        loss.backward()
        weight = net[2].weight
        row = weight.detach()[3:]
        is_same = weight.data_ptr() + 3 * 16 * 4 == row.data_ptr()
        is_same &= weight.data_ptr() == weight.t().untyped_storage().data_ptr()
        assert is_same, "a preview that comes here ends here"
        descend(net)
        seen.append(is_same)
        return loss

    step = fitstep.compile(train, (torch.ones(2, 16),), budget="16MiB")
    assert len(step.variants) == 2, "what comes behind the addresses has been previewed"
    for _ in range(3):
        step(torch.ones(2, 16))
    assert seen == [True] * 3
    step.close()


def test_parameters_that_are_alike_do_not_change_places() -> None:
    """Each takes a branch of its own: no program of one is used for another by moving both."""
    nets = model(), model()

    def clip(net: nn.Module, x: torch.Tensor) -> list[float]:
        net(x).square().mean().backward()
        norms = []
        for p in net.parameters():
            norms.append(p.grad.norm().item())
            if norms[-1] > 0.01:
                p.grad.mul_(0.01 / norms[-1])
            else:
                p.grad.add_(1e-3)
        descend(net)
        return norms

    def train(x: torch.Tensor) -> list[float]:
        return clip(nets[0], x)

    step = fitstep.compile(train, (torch.ones(8, 16),), budget="16MiB")
    places = [p.data_ptr() for p in nets[0].parameters()]
    for i in range(6):
        x = torch.randn(8, 16, generator=torch.Generator().manual_seed(i))
        assert step(x) == clip(nets[1], x)
        assert places == [p.data_ptr() for p in nets[0].parameters()]
    step.close()


def test_addresses_that_a_step_asks_for_leave_nothing_behind() -> None:
    net = model()

    def train(x: torch.Tensor) -> int:
        hidden = net(x)
        hidden.sum().backward()
        descend(net)
        return len({p.data_ptr() for p in net.parameters()} | {hidden.data_ptr()})

    x = torch.ones(2, 16)
    with closing(fitstep.compile(train, (x,), budget="16MiB", audits="off")) as step:
        for _ in range(3):
            step(x)
        with no_tensor_in_cycles():
            step(x)
        assert seen_memory._addresses == []
        stand_ins = [one for one in gc.get_objects() if type(one).__name__ == "_StandIn"]
        assert stand_ins == [], "memory that only the preview has shown"


@pytest.mark.parametrize("kind", ["AdamW", "SGD"])
def test_a_call_keeps_the_programs_that_it_needs(kind: str) -> None:
    net = model()
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(net.parameters(), 0.1)
    if kind == "SGD":  # The first call has other programs than those behind it.
        optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, foreach=False)

    def train(x: torch.Tensor) -> int:
        addresses = {p.data_ptr() for p in net.parameters()}  # Each is at home in a program.
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
        return len(addresses)

    x = torch.ones(2, 16)
    example = (x,)
    with closing(fitstep.compile(train, example, max_variants=4, audits="off")) as step:
        for _ in range(3):
            step(x)
        known = step.variants
        assert len(known) > 4
        step(x)
        assert step.variants == known, "no call makes again what the one before has forgotten"
