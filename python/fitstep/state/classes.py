"""Rules of the walk: which classes are user code, and whose objects' attributes are walked."""

from __future__ import annotations

import functools
import sys
import types

import torch

from fitstep.errors import is_user_file

SCHEDULERS = (
    torch.optim.lr_scheduler.LRScheduler,
    torch.optim.lr_scheduler.ReduceLROnPlateau,
)
_CLOSED_LIBRARIES = frozenset(sys.stdlib_module_names) | {
    *(
        "pandas",
        "matplotlib",
        "sympy",
        "mpmath",
        "tqdm",
        "rich",
        "wandb",
        "tensorboard",
        "tensorboardX",
    ),
    *("mlflow", "triton", "functorch", "torchgen", "PIL", "pytest", "_pytest", "IPython"),
    *("ipykernel", "fitstep"),
}
_OPEN_IN_STDLIB = frozenset(
    {"argparse", "collections", "configparser", "contextlib", "functools", "types", "weakref"}
    | {"optparse", "threading", "_thread", "unittest"}
)
_OPEN_IN_TORCH = (
    "torch.nn.",
    "torch.optim",
    "torch.distributions",
    "torch.amp",
    "torch.cuda.amp",
    "torch.utils.data.",
    "torch.quasirandom",
    "torch.utils.weak",
)


def is_user_class(cls: type) -> bool:
    module = sys.modules.get(cls.__module__)
    return module is not None and is_user_file(file_of(module))


def is_seen_class(cls: type) -> bool:
    """Whether a class is defined in user code or in an installed package that is walked."""
    module = sys.modules.get(cls.__module__)
    if module is not None and cls.__module__ != "types":  # make_dataclass() says "types".
        return is_seen_file(file_of(module)) or _is_of_one_module(cls, module)
    methods = (m for m in vars(cls).values() if isinstance(m, types.FunctionType))
    return any(is_seen_file(method.__code__.co_filename) for method in methods)


def _is_of_one_module(cls: type, home: types.ModuleType) -> bool:
    """Whether a class was created for one module, as torch.nn.utils.parametrize does."""
    return issubclass(cls, torch.nn.Module) and getattr(home, cls.__name__, None) is not cls


@functools.lru_cache(maxsize=4096)
def is_seen_file(filename: str) -> bool:
    """Whether globals and classes of a file may hold a step's state: files of user code and of
    installed packages, except torch and _CLOSED_LIBRARIES."""
    if is_user_file(filename):
        return True
    parts = filename.replace("\\", "/").split("/")
    folders = [i for i, part in enumerate(parts) if part in ("site-packages", "dist-packages")]
    if not folders:
        return False
    top = parts[folders[-1] + 1].partition(".")[0]
    return top != "torch" and top not in _CLOSED_LIBRARIES


def file_of(module: types.ModuleType) -> str:
    """The file of a module; "<stdin>" or "<frozen>" for one without a file."""
    file = getattr(module, "__file__", None)
    # A module without a file is built in, except an interactive session.
    return file or ("<stdin>" if module.__name__ == "__main__" else "<frozen>")


def is_open(kind: type) -> bool:
    """Whether to walk the attributes of a class's objects."""
    if issubclass(kind, (torch.nn.Module, torch.optim.Optimizer, *SCHEDULERS)):
        return True
    home = kind.__module__ or ""
    top = home.partition(".")[0]
    if top == "torch":
        return f"{home}.".startswith(_OPEN_IN_TORCH)
    if top in _CLOSED_LIBRARIES and top not in _OPEN_IN_STDLIB:
        return is_user_class(kind)
    return True
