"""Settings of torch that kernels depend on: a program is for those that it was made under."""

from __future__ import annotations

import torch

_LEAST = 5e-324  # Of all numbers above 0.


def ambient() -> tuple[object, ...]:
    """Equal tuples, equal kernels."""
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.is_autocast_enabled("cuda"),
        torch.get_autocast_dtype("cuda"),
        torch.is_autocast_cache_enabled(),
        torch.get_num_threads(),
        torch._C._get_deterministic_algorithms(),
        torch._C._get_deterministic_algorithms_warn_only(),
        torch._C._get_deterministic_fill_uninitialized_memory(),
        torch._C._get_mkldnn_enabled(),
        torch._C._get_mkldnn_deterministic(),
        torch._C._get_cudnn_enabled(),
        torch._C._get_cudnn_benchmark(),
        torch._C._get_cudnn_deterministic(),
        torch._C._get_fp32_precision_getter("cuda", "conv"),
        torch._C._get_float32_matmul_precision(),
        torch._C._get_flash_sdp_enabled(),
        torch._C._get_mem_efficient_sdp_enabled(),
        torch._C._get_math_sdp_enabled(),
        torch.get_default_dtype(),
        not _LEAST > 0.0,  # torch.set_flush_denormal() has no other trace.
    )
