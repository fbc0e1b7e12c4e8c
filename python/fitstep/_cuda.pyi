"""The GPU side; there where the package was built beside the CUDA toolkit."""

from ._core import Device

def open_device(index: int, kept_bytes: int) -> Device: ...
