"""What PyTorch raises while fakes run, in words that help the user."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch._subclasses import fake_tensor

from .errors import CaptureError, user_location

_ITEM = "_local_scalar_dense"


def translate(error: Exception) -> CaptureError | None:
    """The CaptureError for an exception out of a recording; None for one of the user's own."""
    where = user_location(error.__traceback__)
    text = str(error).split("\n")[0]
    if isinstance(error, fake_tensor.DataDependentOutputException):
        what = ".item() or a decision on a tensor's value" if _ITEM in text else text
        return CaptureError(
            f"the step needs the value of a tensor while it is captured ({what})",
            where=where,
            todo="return the tensor and read it after the step; decide with torch.where inside it",
        )
    if isinstance(error, fake_tensor.DynamicOutputShapeException):
        return CaptureError(
            f"the shape of a result depends on values ({text}): nonzero, unique, a boolean-mask "
            "index",
            where=where,
            todo="keep the shape fixed: multiply by the mask, or use torch.where",
        )
    is_custom = "no fake impl registered" in text
    if isinstance(error, fake_tensor.UnsupportedOperatorException) or is_custom:
        return CaptureError(
            f"{text} has no fake kernel, so its result's shape is not known before it runs",
            where=where,
            todo="register one with torch.library.register_fake, or use another operator",
        )
    if isinstance(error, fake_tensor.UnsupportedFakeTensorException | _device_errors()):
        return CaptureError(text, where=where, todo="keep model, data and constants on the CPU")
    is_memory = "on FakeTensor" in text or "supported for tensor subclasses" in text
    if isinstance(error, RuntimeError) and is_memory:
        return CaptureError(
            f"the step looks at a tensor's memory ({text})",
            where=where,
            todo="numpy and data_ptr() see no values while a step is captured: use torch "
            "operators, or return the tensor and convert it after the step",
        )
    return None


def _device_errors() -> type[Exception]:
    found: type[Exception] | None = getattr(fake_tensor, "MismatchedDeviceError", None)
    return found or fake_tensor.UnsupportedFakeTensorException


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Gives what PyTorch's fakes refuse a message of ours."""
    try:
        yield
    except CaptureError:
        raise
    except Exception as error:
        ours = translate(error)
        if ours is None:
            raise
        raise ours from error
