"""A small model in the middle of its training, for tests that disturb it.

It has what an interrupted preview could damage: momentum, running statistics, dropout (which draws
from the global generator), gradients left over from the last step, and Python objects whose
identity user code may hold.
"""

import inspect
from collections.abc import Callable
from pathlib import Path

import torch
from fitstep_kit.measures.bits import Fingerprint, fingerprint
from torch import Tensor, nn

ROWS = 512  # Enough for activations of megabytes, beside which the reserve of 64 KiB is small.


class Bench:
    """Two benches have equal bits as long as they are used equally, one after the other.

    Making one seeds the global generator, which all share.
    """

    def __init__(self, warm_steps: int = 0) -> None:
        torch.manual_seed(3)
        self.model = nn.Sequential(
            nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 4)
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.inputs = torch.randn(ROWS, 64)
        self.targets = torch.randint(0, 4, (ROWS,))
        self.losses: list[Tensor] = []
        self.train(warm_steps)

    @property
    def example(self) -> tuple[Tensor, Tensor]:
        return self.inputs, self.targets

    def plain_step(self, inputs: Tensor, targets: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(inputs), targets)
        loss.backward()
        self.optimizer.step()
        return loss

    def train(self, steps: int, step: Callable[..., Tensor] | None = None) -> None:
        """Trains with `step`, by default plainly, on the one batch."""
        for _ in range(steps):
            loss = (step or self.plain_step)(*self.example)
            self.losses.append(loss.detach().clone())

    def bits(self) -> Fingerprint:
        return fingerprint(
            model=self.model,
            optimizer=self.optimizer,
            losses=self.losses,
            inputs=self.example,
            random=torch.get_rng_state(),
        )

    def identity(self) -> dict[str, tuple[object, ...]]:
        """Which objects these are and where their bytes lie: what aliases in user code rely on."""
        tensors = dict(self.model.named_parameters()) | dict(self.model.named_buffers())
        seen: dict[str, tuple[object, ...]] = {
            name: (id(tensor), tensor.data_ptr(), tensor._version, id(tensor.grad), tensor.is_leaf)
            for name, tensor in tensors.items()
        }
        for index, state in enumerate(self.optimizer.state.values()):
            seen[f"state {index}"] = tuple((key, id(value)) for key, value in state.items())
        seen["modes"] = tuple(module.training for module in self.model.modules())
        seen["requires grad"] = tuple(p.requires_grad for p in self.model.parameters())
        return seen


def line_of(function: Callable[..., object], marker: str = "# <- here") -> str:
    """ "file.py:line" of the line that carries the marker in the function's source."""
    lines, first = inspect.getsourcelines(function)
    found = [first + i for i, line in enumerate(lines) if marker in line]
    assert len(found) == 1, f"{function} must carry the marker once"
    return f"{Path(inspect.getfile(function)).name}:{found[0]}"
