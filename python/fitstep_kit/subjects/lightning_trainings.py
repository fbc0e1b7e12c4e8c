"""Small trainings with the Trainer of Lightning."""

from __future__ import annotations

from typing import Any

import lightning
import torch
from lightning.pytorch.loggers.logger import Logger
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from fitstep_kit.measures.bits import Fingerprint, fingerprint


class Rows(Logger):  # type: ignore[misc]
    """Keeps what is logged."""

    name = "rows"
    version = 0

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, Any]] = []

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.rows.append({"step": step, **metrics})

    def log_hyperparams(self, *_args: Any, **_kwargs: Any) -> None:
        """A logger has to have it."""


class Classifier(lightning.LightningModule):  # type: ignore[misc]
    """With dropout, batch norm, a schedule, and logs per step and per epoch."""

    def __init__(self, width: int = 32, depth: int = 1) -> None:
        super().__init__()
        torch.manual_seed(0)
        inner = [one for _ in range(depth) for one in (nn.Linear(width, width), nn.GELU())]
        self.net = nn.Sequential(
            *(nn.Linear(16, width), nn.BatchNorm1d(width), nn.GELU(), nn.Dropout(0.1)),
            *inner,
            nn.Linear(width, 4),
        )

    def loss(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def training_step(self, batch: tuple[Tensor, Tensor], _index: int) -> Tensor:
        loss = self.loss(batch)
        self.log("loss", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], _index: int) -> None:
        self.log("val", self.loss(batch))

    def configure_optimizers(self) -> dict[str, Any]:
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }


class ManualClassifier(Classifier):
    """The same with manual optimization."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: tuple[Tensor, Tensor], _index: int) -> Tensor:
        optimizer = self.optimizers()
        optimizer.zero_grad()
        loss = self.loss(batch)
        self.manual_backward(loss)
        self.clip_gradients(optimizer, gradient_clip_val=0.5, gradient_clip_algorithm="norm")
        optimizer.step()
        self.lr_schedulers().step()
        self.log("loss", loss)
        return loss


def batches(rows: int = 28, size: int = 4) -> DataLoader[Any]:
    drawn = torch.Generator().manual_seed(1)
    x = torch.randn(rows, 16, generator=drawn)
    y = torch.randint(0, 4, (rows,), generator=drawn)
    return DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True)


def make_trainer(**settings: Any) -> lightning.Trainer:
    """A trainer for a CPU that writes no files."""
    lightning.seed_everything(5, verbose=False)
    usual: dict[str, Any] = {
        "accelerator": "cpu",
        "devices": 1,
        "max_epochs": 1,
        "logger": Rows(),
        "log_every_n_steps": 1,
        "enable_progress_bar": False,
        "enable_checkpointing": False,
        "enable_model_summary": False,
    }
    return lightning.Trainer(**(usual | settings))


def outcome(trainer: lightning.Trainer) -> Fingerprint:
    """The bits of all that a training leaves, its logs, and how far it counts."""
    return fingerprint(
        model=trainer.lightning_module,
        optimizers=[one.state_dict() for one in trainer.optimizers],
        generator=torch.get_rng_state(),
        logs=trainer.logger.rows,
        counts=[trainer.global_step, trainer.current_epoch],
    )
