"""What depends on the version of torch. In C++ `fitstep_torch/tensors/torch_versions.h` has the
rest.

    import fitstep --> is there a module for this torch? --> has torch all names that we use?
                       no: ImportError                       no: ImportError

The compiled modules lie in a folder that is named after the torch that they were built with:
`_built/2.13` in a wheel, for each patch release of torch 2.13; `_built/2.13.0+cpu` in the source
tree, for this build of torch alone. `tools/doctor.py` reads this file without importing fitstep.
"""

from __future__ import annotations

import re
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

OLDEST = (2, 11)  # An older torch is refused.
NEWEST = (2, 15)  # The newest that was tested; `self_test.py` tries a newer one before its use.

# Names of torch that are no public API. Without one of them a step would not be followed, or not
# be put back, so `import fitstep` asks for all of them.
_OF_C = (
    *("_autograd._unsafe_set_version_counter", "_current_autograd_node", "_to_dlpack"),
    *("_get_cudnn_benchmark", "_get_cudnn_deterministic", "_get_cudnn_enabled"),
    *("_get_cudnn_sdp_enabled", "_get_flash_sdp_enabled", "_get_math_sdp_enabled"),
    *("_get_mem_efficient_sdp_enabled", "_get_deterministic_algorithms"),
    *("_get_deterministic_algorithms_warn_only", "_get_deterministic_fill_uninitialized_memory"),
    *("_get_float32_matmul_precision", "_get_fp32_precision_getter", "_get_mkldnn_deterministic"),
    *("_get_mkldnn_enabled", "_get_nnpack_enabled", "_set_cudnn_benchmark"),
    *("_set_cudnn_deterministic", "_set_cudnn_enabled", "_set_default_dtype"),
    *("_set_deterministic_algorithms", "_set_deterministic_fill_uninitialized_memory"),
    *("_set_float32_matmul_precision", "_set_mkldnn_deterministic", "_set_mkldnn_enabled"),
    *("_set_nnpack_enabled", "_set_sdp_use_cudnn", "_set_sdp_use_flash", "_set_sdp_use_math"),
    *("_set_sdp_use_mem_efficient", "get_num_threads", "set_num_threads", "set_flush_denormal"),
    "DisableTorchFunctionSubclass",
)
_OF_STORAGES = (
    *("_byteswap", "_set_cdata", "_set_from_file", "_share_cuda_", "_share_fd_cpu_"),
    *("_share_filename_cpu_", "_write_file"),
)
NEEDED = (
    *(f"_C.{name}" for name in _OF_C),
    *(f"UntypedStorage.{name}" for name in _OF_STORAGES),
    *("_neg_view", "_ops.OpOverload", "_ops.OpOverloadPacket", "_tensor_str.PRINT_OPTS"),
    *("autograd._get_sequence_nr", "serialization._open_zipfile_writer_file"),
    *("utils._pytree.SUPPORTED_NODES", "utils._pytree._get_node_type"),
)
# Names that older versions do not have, with the first version that has them.
NEEDED_SINCE = {
    "UntypedStorage._swap_data_ptr_": (2, 12),
    "UntypedStorage._resize_with_addr_": (2, 13),
}
ONLY_WITH_A_GPU = ("_C._cuda_clearCublasWorkspaces",)  # A torch for CPUs has no such name.


def release_of(version: str) -> tuple[int, ...]:
    """The numbers of a version: "2.13.0+cpu" gives (2, 13, 0), "2.16.0.dev2027" (2, 16, 0)."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def minor_of(version: str) -> str:
    """The part of a version that a wheel is for: "2.13.0+cpu" gives "2.13"."""
    return ".".join(str(number) for number in release_of(version)[:2])


def text_of(minor: tuple[int, int]) -> str:
    """(2, 13) as "2.13"."""
    return f"{minor[0]}.{minor[1]}"


def too_old(version: str) -> str | None:
    """The sentence that refuses a torch below OLDEST, or None."""
    if release_of(version) >= OLDEST:
        return None
    oldest = text_of(OLDEST)
    return (
        f"torch {version} is older than {oldest}, the oldest torch that fitstep runs with: "
        f"pip install 'torch>={oldest}'"
    )


def is_untested(version: str) -> bool:
    """Whether torch is newer than all that fitstep was tested with."""
    return release_of(version)[:2] > NEWEST


def untested(version: str) -> str:
    """What is said of a torch for which `is_untested` is true."""
    return (
        f"torch {version} is newer than {text_of(NEWEST)}, the newest torch that fitstep was "
        "tested with"
    )


def modules_for(version: str, built: Path) -> Path:
    """The folder under `built` with the modules for a torch.

    Raises ImportError with one sentence if there is none: what was built, and what to install.
    """
    there = sorted(one.name for one in built.glob("*") if _is_loadable(one))
    for name in (version, minor_of(version)):
        if name in there:
            return built / name
    if not there:
        raise ImportError(
            "fitstep's compiled module is missing: build it with `make demo`, or with "
            "`pip install . --no-build-isolation` from fitstep's source folder"
        )
    if len(there) == 1 and there[0] == minor_of(there[0]):
        mine, yours = there[0], minor_of(version)
        other = f"install the wheel for torch {yours}, or "
        raise ImportError(
            f"this wheel of fitstep is for torch {mine}, and you have torch {version}: "
            f"{'' if too_old(version) else other}pip install 'torch=={mine}.*'"
        )
    raise ImportError(
        too_old(version)
        or f"this fitstep is built for torch {', '.join(there)}, and you have torch {version}: "
        "build it for yours with `PYTHON=/path/to/python make demo`"
    )


def _is_loadable(folder: Path) -> bool:
    """Whether this Python can load the module that lies there."""
    return any((folder / f"_core{suffix}").exists() for suffix in EXTENSION_SUFFIXES)


def missing_names(torch: Any) -> list[str]:
    """The names that fitstep uses of a torch of this version, and that it does not have."""
    release = release_of(str(torch.__version__))
    newer = [name for name, since in NEEDED_SINCE.items() if release >= since]
    return [f"torch.{name}" for name in (*NEEDED, *newer) if not _has(torch, name)]


def _has(owner: Any, name: str) -> bool:
    for part in name.split("."):
        if not hasattr(owner, part):
            return False
        owner = getattr(owner, part)
    return True


def check_names(torch: Any) -> None:
    """Raises ImportError if torch misses a name that fitstep uses."""
    missing = missing_names(torch)
    if missing:
        newest = text_of(NEWEST)
        raise ImportError(
            f"torch {torch.__version__} has no {', '.join(missing)}, which fitstep uses: "
            f"pip install 'torch=={newest}.*', the newest that fitstep is tested with"
        )


def add_modules(package: list[str]) -> None:
    """Puts the folder of the compiled modules for this torch in front of a package's path.
    Raises ImportError."""
    import torch
    import torch.utils._pytree

    folder = modules_for(str(torch.__version__), Path(package[0]) / "_built")
    check_names(torch)
    package.insert(0, str(folder))
