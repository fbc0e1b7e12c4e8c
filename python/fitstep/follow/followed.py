"""What patches know of the following of a call, which makes them (following.py)."""

from __future__ import annotations

from typing import Any, Protocol

import torch


class Followed(Protocol):
    """A call of a step function while it runs."""

    core: Any  # _core.Follower
    arrays: Any
    patches: Any

    @property
    def is_preview(self) -> bool:
        """Whether no kernel runs."""

    def is_asked(self) -> bool:
        """Whether the step function itself has called."""

    def is_current(self) -> bool:
        """Whether it is under way on this thread."""

    def is_home(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor's storage is in the arena."""

    def flush(self, name: str) -> bool:
        """Runs what is recorded: `name` asks for a value. Whether kernels have run."""

    def refuse(self, name: str, why: str) -> None:
        """Raises CaptureError for an operator."""

    def see_setting(self) -> None:
        """Settings of kernels have changed."""

    def see_compiled(self, callback: Any) -> Any:
        """Takes the place of what PyTorch asks on entering compiled code."""
