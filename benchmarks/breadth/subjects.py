"""All subjects of the breadth benchmark: tiny random models of every family.

A subject's name is LIBRARY/FAMILY/bROWS, for example timm/resnet/b3 or
transformers_causal/llama/b1. Nothing is downloaded.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.breadth import tiny_others, tiny_timm, tiny_torchvision, tiny_transformers
from benchmarks.breadth.subject import Subject
from benchmarks.breadth.tiny_torchvision import import_torchvision

BATCHES = (1, 3)


@dataclass(frozen=True)
class Library:
    """Where families come from."""

    packages: tuple[str, ...]  # Without one of them the library's subjects are left out.
    names: Callable[[], list[str]]  # Of families.
    build: Callable[[str, int], Subject]


LIBRARIES = {
    "transformers": Library(("transformers",), tiny_transformers.names, tiny_transformers.build),
    "timm": Library(("timm", "torchvision"), tiny_timm.names, tiny_timm.build),
    "torchvision": Library(("torchvision",), tiny_torchvision.names, tiny_torchvision.build),
    "peft": Library(("peft", "transformers"), tiny_others.peft_names, tiny_others.build),
    "diffusers": Library(("diffusers",), tiny_others.diffusers_names, tiny_others.build),
}
# Why plain PyTorch does not train a subject, or both of a family, in a tiny form.
SKIPPED = {**tiny_transformers.SKIPPED, **tiny_timm.SKIPPED, **tiny_torchvision.SKIPPED}


def names() -> list[str]:
    """The subjects of all libraries that are installed, but those of SKIPPED."""
    found: list[str] = []
    for library in LIBRARIES.values():
        if all(importlib.util.find_spec(package) for package in library.packages):
            _import_first()
            found += [f"{name}/b{count}" for name in library.names() for count in BATCHES]
    return [name for name in found if name not in SKIPPED and family_of(name) not in SKIPPED]


def family_of(name: str) -> str:
    """The name without the number of rows."""
    return name.rpartition("/")[0]


def library_of(name: str) -> str:
    """The key in LIBRARIES; transformers_causal is of transformers."""
    return name.partition("/")[0].partition("_")[0]


def build(name: str) -> Subject:
    """Equal for equal seeds."""
    _import_first()
    family, _, count = name.rpartition("/b")
    return LIBRARIES[library_of(name)].build(family, int(count))


def _import_first() -> None:
    if importlib.util.find_spec("torchvision"):  # Others import it without asking whether it can.
        import_torchvision()
