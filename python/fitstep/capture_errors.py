"""What PyTorch raises while fakes run, in words that help the user."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator

from torch._subclasses import fake_tensor

from .errors import CaptureError, user_location

_ITEM = "_local_scalar_dense"
# What to do where PyTorch's own code is what decides on values: (in its file, function) -> advice.
_ADVICE = {
    ("torch/distributions/", ""): "turn the checks of arguments off: validate_args=False, or "
    "torch.distributions.Distribution.set_default_validate_args(False)",
    ("torch/nn/functional.py", "gaussian_nll_loss"): "write the loss out: it checks that no "
    "variance is negative",
    ("torch/nn/functional.py", "ctc_loss"): "compute the CTC loss outside the compiled step: its "
    "kernels read the lengths' values",
    (
        "torch/nn/utils/rnn.py",
        "",
    ): "pad the sequences and mask the loss: how a packed sequence lies "
    "in memory depends on the lengths' values",
}


def translate(error: Exception) -> CaptureError | None:
    """The CaptureError for an exception out of a recording; None for one of the user's own."""
    where = user_location(error.__traceback__)
    text = str(error).split("\n")[0]
    if isinstance(error, fake_tensor.DataDependentOutputException):
        what = ".item() or a decision on a tensor's value" if _ITEM in text else text
        return CaptureError(
            f"the step needs the value of a tensor while it is captured ({what})",
            where=where,
            todo=_advice(error)
            or "return the tensor and read it after the step; decide with torch.where inside it",
        )
    if isinstance(error, fake_tensor.DynamicOutputShapeException):
        return CaptureError(
            f"the shape of a result depends on values ({text}): nonzero, unique, a boolean-mask "
            "index",
            where=where,
            todo=_advice(error) or "keep the shape fixed: multiply by the mask, or use torch.where",
        )
    is_custom = "no fake impl registered" in text
    if isinstance(error, fake_tensor.UnsupportedOperatorException) or is_custom:
        return CaptureError(
            f"{text} has no fake kernel, so its result's shape is not known before it runs",
            where=where,
            todo="use another operator; for an optimizer, fused=False"
            if text.startswith("aten")
            else "register one with torch.library.register_fake, or use another operator",
        )
    if isinstance(error, fake_tensor.UnsupportedFakeTensorException | _device_errors()):
        return CaptureError(text, where=where, todo="keep model, data and constants on one device")
    is_memory = "on FakeTensor" in text or "supported for tensor subclasses" in text
    if isinstance(error, RuntimeError) and is_memory:
        return CaptureError(
            f"the step looks at a tensor's memory ({text})",
            where=where,
            todo="numpy and data_ptr() see no values while a step is captured: use torch "
            "operators, or return the tensor and convert it after the step",
        )
    return None


def _advice(error: Exception) -> str | None:
    """For values that PyTorch's own code looks at, not the user's."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        for (file, function), advice in _ADVICE.items():
            if file in code.co_filename and function in ("", code.co_name):
                return advice
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
