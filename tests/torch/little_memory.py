"""A training that is refused memory for some batches and goes on: a process of its own.

Prints what of the caller's own has changed by itself, whether memory grows behind that, and whether
the model's bits are those of plain PyTorch.
"""

import contextlib
import resource
from pathlib import Path

import torch
from fitstep_kit.measures.bits import differences, fingerprint
from torch import Tensor, nn

import fitstep

MIB = 1 << 20
ROWS = 700_000
LIMITS = [*range(20, 160, 10), 4_000]  # Beyond what the process has, in MiB.


class Job:
    """Two have equal bits."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def step(self, x: Tensor) -> Tensor:
        """One of the training."""
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss


def pages_now() -> int:
    """Resident ones of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1])


def main() -> None:
    """The whole of it."""
    torch.set_num_threads(1)
    ours, plain = Job(), Job()
    usual = torch.ones(4, 8)
    step = fitstep.compile(ours.step, (usual,), audits="off")
    step(usual)
    plain.step(usual)
    own: list[Tensor] = []
    refused = 0
    for number, limit in enumerate(LIMITS):
        rows = ROWS + number  # What is measured once is known.
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + limit * MIB
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        before = fingerprint(it=ours.model)
        with contextlib.suppress(RuntimeError, fitstep.FitstepError):
            step(torch.ones(1, 8).expand(rows, 8))
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        if differences(before, fingerprint(it=ours.model)):
            plain.step(torch.ones(1, 8).expand(rows, 8))
        else:
            refused += 1
        own += [torch.full((16,), float(len(own) + k)) for k in range(4)]
        step(usual)
        plain.step(usual)
    changed = [k for k, tensor in enumerate(own) if not bool((tensor == k).all())]
    resident = 0
    for _ in range(3):  # What has been given back comes again at first.
        resident = pages_now()
        for _ in range(500_000):
            torch.empty(1)
    grown = (pages_now() - resident) * resource.getpagesize()
    print("refused", refused)
    print("grown", grown > 8 * MIB)
    print("changed", changed)
    print("differences", differences(fingerprint(it=ours.model), fingerprint(it=plain.model)))


if __name__ == "__main__":
    main()
