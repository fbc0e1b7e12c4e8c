"""State that installed packages keep, and modules that a step is the first to import."""

from __future__ import annotations

import importlib
import itertools
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cases.python.hidden import Holder
from cases.python.scripted import scripted
from kit import add, case
from torch import Tensor, nn
from worlds import Bench, mlp

_numbers = itertools.count()


def package(text: str, *, folder: str = "site-packages", **modules: str) -> str:
    """The name of a package that nobody has imported."""
    name = f"package_of_the_hunt_{next(_numbers)}"
    place = Path(tempfile.mkdtemp()) / folder
    (place / name).mkdir(parents=True)
    for module, content in {"__init__": text, **modules}.items():
        (place / name / f"{module}.py").write_text(textwrap.dedent(content))
    sys.path.append(str(place))
    importlib.invalidate_caches()
    return name


def counting_in(text: str, **options: Any) -> Callable[[Callable[[Any], int]], Any]:
    """A case in which a count that an installed package keeps decides how a step trains."""

    def decorate(count: Callable[[Any], int]) -> Any:
        def world() -> Any:
            b = Bench()
            library = importlib.import_module(package(text, **options))

            def step(x: Tensor, y: Tensor) -> Tensor:
                scale = 0.5 if count(library) > 3 else 1.0
                return b.update(b.loss(x, y) * scale)

            return b.world(step, Holder())

        add("installed", count.__name__, world)
        return count

    return decorate


@counting_in("""
    calls = 0
    def count():
        global calls
        calls += 1
        return calls
""")
def a_global_of_a_package(library: Any) -> int:
    return int(library.count())


@counting_in("calls = 0")
def a_global_that_the_step_sets(library: Any) -> int:
    library.calls += 1
    return int(library.calls)


@counting_in("""
    class Meter:
        calls = 0
        def count(self):
            type(self).calls += 1
            return Meter.calls
""")
def an_attribute_of_a_class(library: Any) -> int:
    return int(library.Meter().count())


@counting_in("""
    log = []
    def count():
        log.append(1)
        return len(log)
""")
def a_list_of_a_package(library: Any) -> int:
    return int(library.count())


@counting_in("""
    import functools
    class Meter: calls = 0
    @functools.lru_cache(None)
    def meter(): return Meter()
    @functools.lru_cache(None)
    def one_more(n): return object()
    def count():
        meter().calls += 1
        one_more(one_more.cache_info().misses)
        return one_more.cache_info().misses if meter().calls else 0
""")
def caches_of_a_package(library: Any) -> int:
    return int(library.count())


@counting_in("""
    def counted(function):
        calls = 0
        def call():
            nonlocal calls
            calls += 1
            return function(calls)
        return call
    @counted
    def count(calls): return calls
""")
def a_decorator_s_closure(library: Any) -> int:
    return int(library.count())


@counting_in("""
    def make():
        calls = 0
        def count():
            nonlocal calls
            calls += 1
            return calls
        return count
    count_of_all = make()
""")
def a_closure_with_a_name_that_is_made_up(library: Any) -> int:
    return int(getattr(library, "_".join(["count", "of", "all"]))())


@counting_in("""
    registry = {}
    def register(function): registry[function.__name__ + "_"] = function; return function
    calls = [0]
    @register
    def count():
        calls[0] += 1
        return calls[0]
""")
def a_function_out_of_a_registry(library: Any) -> int:
    return int(library.registry["count" + "_"]())


@counting_in("""
    import itertools, threading
    class Slots:
        __slots__ = ("calls",)
    here, slots, ids = threading.local(), Slots(), itertools.count()
    here.calls = slots.calls = 0
    def count():
        here.calls += 1
        slots.calls += 1
        return min(here.calls, slots.calls, next(ids) + 1)
""")
def odd_places_of_a_package(library: Any) -> int:
    return int(library.count())


@counting_in("""
    class Meter:
        one = None
        def __init__(self): self.calls = 0
        @classmethod
        def get(cls):
            if cls.one is None: cls.one = cls()
            return cls.one
    def count():
        Meter.get().calls += 1
        return Meter.get().calls
""")
def a_singleton_made_by_the_step(library: Any) -> int:
    return int(library.count())


@counting_in("""
    calls = 0
    def numbers():
        global calls
        while True:
            calls += 1
            yield calls
    def count(): return next(numbers())
""")
def a_generator_function_of_a_package(library: Any) -> int:
    return int(library.count())


@counting_in("""
    import random
    own = random.Random(3)
    drawn = []
    def count():
        drawn[:] = [own.random()]
        return int(10 * drawn[0])
""")
def a_generator_of_a_package(library: Any) -> int:
    return int(library.count())


@counting_in(
    "from .inner import count",
    inner="""
    calls = 0
    def count():
        from . import inner
        inner.calls += 1
        return calls
""",
)
def a_module_that_a_package_imports_again(library: Any) -> int:
    return int(library.count())


def importing(name: str, folder: str, registers: bool, make: Callable[[], nn.Module] = mlp) -> Any:
    """A step that is the first to import a module, which counts, and may register itself."""

    def world() -> Any:
        b = Bench(make())
        package_name = package(
            "registry = []\ncalls = 0",
            folder=folder,
            late=f"from . import registry\nif {registers}: registry.append(1)\ncalls = 0",
        )
        top = importlib.import_module(package_name)

        def step(x: Tensor, y: Tensor) -> Tensor:
            late = importlib.import_module(f"{package_name}.late")
            late.calls += 1
            top.calls += 1 + len(top.registry)
            return b.update(b.loss(x, y) * (0.5 if late.calls + top.calls > 6 else 1.0))

        return b.world(step, Holder())

    add("installed", name, world)
    return world


for _kind, _folder in (("user", "source"), ("package", "site-packages")):
    importing(f"a_first_import_of_a_{_kind}_s_module", _folder, False)
    importing(f"a_first_import_that_registers_a_{_kind}_s_module", _folder, True)


@case("installed")
def a_first_import_of_a_module_that_code_names() -> Any:
    b = Bench(mlp())
    top = importlib.import_module(package("", late="calls = 0"))

    def step(x: Tensor, y: Tensor) -> Tensor:
        importlib.import_module(f"{top.__name__}.late")
        top.late.calls += 1  # An attribute that the import has set.
        return b.update(b.loss(x, y) * (0.5 if top.late.calls > 3 else 1.0))

    return b.world(step, Holder())


# What it keeps is made anew whenever one asks, and has not changed for that.
importing("a_first_import_beside_a_scripted_module", "source", False, scripted)


@counting_in("""
    seen = {f"key {i}" for i in range(5)}
    def count():
        seen.add(f"call {len(seen)}")
        return len(seen) - 5
""")
def a_set_that_gets_more(library: Any) -> int:
    return int(library.count())


@case("installed")
def an_import_that_fails() -> Any:
    b = Bench()
    name = package("", broken="raise RuntimeError('no such library')")
    importlib.import_module(name)
    calls = [0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        for module in ("missing", "broken"):
            try:
                importlib.import_module(f"{name}.{module}")
            except (ImportError, RuntimeError):
                calls[0] += 1
        return b.update(b.loss(x, y) * (0.5 if calls[0] > 6 else 1.0))

    return b.world(step, Holder())


@case("installed")
def a_tensor_kept_by_a_package() -> Any:
    b = Bench(mlp())
    library = importlib.import_module(
        package("""
            import torch
            kept = {}
            def scale_of(n):
                if n not in kept:
                    kept[n] = torch.arange(n, dtype=torch.float32).add(1).sqrt()
                return kept[n]
        """)
    )

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(b.loss(x * library.scale_of(x.shape[0])[:, None], y))

    return b.world(step, Holder())
