"""The harness of the hunt: one small training in two worlds, plain PyTorch's and fitstep's.

A case is a function that builds a fresh world from a fixed seed and returns three things:

    step    the training step, or a list of them
    calls   tuples of arguments; `Call` for keywords or another step, `Do` for what happens between,
            `Later` for arguments that are made from earlier results
    probe   returns everything that is compared: modules, optimizers, lists, text, arrays

    @case("counter")
    def counts_in_a_closure():
        b = Bench()
        ...
        return step, b.calls, lambda: (b.model, b.opt, counts)

`run_case` trains both worlds, compares the result of every call and the probe bit for bit, and
says which of the outcomes in `OUTCOMES` the case has. FITSTEP_AUDITS=auto puts audits on.
"""

from __future__ import annotations

import gc
import importlib
import os
import random
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from snapshots import differences, snapshot, without_writes

OUTCOMES = {
    "right": "the same bits everywhere",
    "refused": "FitstepError, or at compile the step's own error, before anything differed",
    "found": "FitstepError that says a comparison or an audit failed",
    "late": "FitstepError, raised after something differed",
    "SILENT": "other bits and no error",
    "raw": "an exception that is no FitstepError and that plain PyTorch does not raise",
    "broken": "the case itself fails in plain PyTorch",
}
ALLOWED = ("right", "refused", "found")
SEED = 20
os.environ.setdefault("FITSTEP_AUDITS", "off")  # Without them nothing but following is right.
FOUND = re.compile("an audit|would compute other numbers")  # AuditError, errors.overwritten().


class Do:
    """What happens between two calls, outside the step."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.act = act


class Again(Do):
    """Between two calls: closes the compiled steps and compiles them once more."""

    def __init__(self) -> None:
        super().__init__(lambda: None)


class Call:
    """A call with keywords, of another step than the first, or one that must raise."""

    def __init__(
        self,
        *args: Any,
        which: int = 0,
        raises: type[BaseException] | None = None,
        example: tuple[Any, ...] | None = None,
        **kwargs: Any,
    ) -> None:
        self.args, self.kwargs = args, kwargs
        self.which, self.raises, self.example = which, raises, example


class Later:
    """A call whose arguments are made from the results so far."""

    def __init__(self, args: Callable[[list[Any]], tuple[Any, ...]]) -> None:
        self.args = args


def to_call(item: Any, results: list[Any]) -> Call:
    """An entry of a case's list of calls, as a call."""
    if isinstance(item, Later):
        return Call(*item.args(results))
    return item if isinstance(item, Call) else Call(*item)


@dataclass(frozen=True)
class Case:
    """A training of a few calls. `options` go to `fitstep.compile`."""

    name: str
    kind: str
    make: Callable[[], tuple[Any, list[Any], Callable[[], Any]]]
    options: dict[str, Any] = field(default_factory=dict)


CASES: dict[str, Case] = {}


def add(kind: str, name: str, make: Callable[[], Any], **options: Any) -> None:
    """Registers a case."""
    if name in CASES:
        raise ValueError(f"two cases have the name {name}")
    CASES[name] = Case(name, kind, make, options)


def case(kind: str, **options: Any) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Registers the decorated function as a case of its own name."""

    def register(make: Callable[[], Any]) -> Callable[[], Any]:
        add(kind, make.__name__, make, **options)
        return make

    return register


def load_cases() -> dict[str, Case]:
    """All cases of the files in the folders of cases/."""
    for path in sorted(Path(__file__).parent.glob("cases/*/*.py")):
        importlib.import_module(f"cases.{path.parent.name}.{path.stem}")
    return CASES


@dataclass
class Outcome:
    """What became of a case: one of `OUTCOMES`, the call it happened at, and the details."""

    case: Case
    outcome: str
    where: str = ""
    detail: str = ""
    seconds: float = 0.0

    def line(self) -> str:
        """One line of the list that run.py prints."""
        text = " ".join(self.detail.split())
        place = f"{self.where}: " if self.where else ""
        head = f"{self.outcome:8} {self.case.kind:12} {self.case.name:38} {self.seconds:5.2f} s"
        return f"{head}  {place}{text[:300]}".rstrip()


@dataclass
class Trace:
    """A world that was trained: what each call gave, and the state before each call and after."""

    results: list[tuple[str, Any]] = field(default_factory=list)
    before: list[Any] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)
    end: Any = None


class Stop(Exception):
    """Ends a world early with an outcome."""

    def __init__(self, outcome: str, where: str, detail: str) -> None:
        super().__init__(outcome, where, detail)


@contextmanager
def isolated() -> Iterator[None]:
    """Seeds every generator, and puts back afterwards what a case may change globally."""
    environ, folder, dtype = dict(os.environ), os.getcwd(), torch.get_default_dtype()
    filters, streams = warnings.filters[:], (sys.stdout, sys.stderr)
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    random.seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002 - the steps under test use it.
    warnings.simplefilter("ignore")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(environ)
        os.chdir(folder)
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(True)
        torch.set_autocast_enabled("cpu", False)
        torch.set_autocast_dtype("cpu", torch.bfloat16)
        warnings.filters[:] = filters
        sys.stdout, sys.stderr = streams
        gc.enable()
        for enable in (torch.backends.cuda.enable_math_sdp, torch.backends.cuda.enable_flash_sdp):
            enable(True)


def run_case(case: Case, budget: Any = None) -> Outcome:
    """Trains both worlds of a case and says how they compare."""
    import fitstep  # noqa: F401 - before the generators are seeded.

    began = time.perf_counter()
    try:
        with isolated():
            plain = train_plain(case)
        with isolated():
            train_fitstep(case, budget, plain)
        outcome = Outcome(case, "right")
    except Stop as stop:
        outcome = Outcome(case, *stop.args)
    outcome.seconds = time.perf_counter() - began
    return outcome


def train_plain(case: Case) -> Trace:
    """The world of plain PyTorch. Raises Stop if the case does not work there."""
    try:
        step, calls, probe = case.make()
        steps = step if isinstance(step, list) else [step]
        trace = Trace()
        for item in calls:
            if isinstance(item, Do):
                item.act()
                continue
            call = to_call(item, trace.kept)
            trace.before.append(state(probe))
            trace.results.append(take_result(steps[call.which], call, trace.kept))
            seen = trace.results[-1]
            wanted = "raised" if call.raises else "returned"
            if seen[0] != wanted or (call.raises and seen[1] != call.raises.__name__):
                raise Stop("broken", f"call {len(trace.results)}", f"{seen[0]} {seen[1]}")
        trace.end = state(probe)
    except Stop:
        raise
    except Exception:
        raise Stop("broken", "plain PyTorch", traceback.format_exc(limit=-3)) from None
    again = [snapshot(value) for value in trace.kept]
    # What plain PyTorch's results share with the model changes later; fitstep's are copies.
    trace.kept = [
        one if one == result[1] else None for one, result in zip(again, trace.results, strict=True)
    ]
    return trace


def train_fitstep(case: Case, budget: Any, plain: Trace) -> None:
    """The other world. Raises Stop where it leaves the first."""

    step, calls, probe = case.make()
    functions = step if isinstance(step, list) else [step]
    compiled: list[Any] = []

    def compile_all(before: Any) -> None:
        for which, function in enumerate(functions):
            example = example_of(calls, which)
            try:
                at = budget if not compiled else None  # A later one joins the arena.
                compiled.append(compile_at(function, example, at, case.options))
            except (Exception, SystemExit, *raised_by(calls)) as error:
                is_own = isinstance(error, tuple(raised_by(calls)))
                raise refusal(error, "compile", before, probe, is_own) from None

    try:
        compile_all(plain.before[0])
        trace = Trace()
        for item in calls:
            if isinstance(item, Again):
                close(compiled)
                compile_all(plain.before[len(trace.results)])
            if isinstance(item, Do):
                act(item, len(trace.results))
                continue
            call = to_call(item, trace.kept)
            one_call(compiled[call.which], call, trace, plain, probe)
        compare("end", plain.end, state(probe))
        for number, (old, value) in enumerate(zip(plain.kept, trace.kept, strict=True)):
            if old is not None:
                compare(f"result {number + 1}, looked at later", old, snapshot(value))
    finally:
        close(compiled)


def compile_at(function: Any, example: Any, budget: Any, options: dict[str, Any]) -> Any:
    """The compiled step; "least" is the smallest budget that is known to do."""
    import fitstep

    if budget != "least":
        return fitstep.compile(function, example, budget, **options)
    try:
        return fitstep.compile(function, example, 1, **options)
    except fitstep.BudgetTooSmall as error:
        least = error.least_found_bytes or error.floor_bytes
    return fitstep.compile(function, example, least, **options)


def close(compiled: list[Any]) -> None:
    """Closes compiled steps and forgets them."""
    for one in compiled:
        one.close()
    compiled.clear()


def raised_by(calls: list[Any]) -> set[type[BaseException]]:
    """The exceptions that the calls of a case raise in plain PyTorch."""
    return {item.raises for item in calls if isinstance(item, Call) and item.raises}


def one_call(step: Any, call: Call, trace: Trace, plain: Trace, probe: Any) -> None:
    """Runs one call and compares its result, or what it raised."""
    from fitstep import FitstepError

    number = len(trace.results)
    where, wanted = f"call {number + 1}", plain.results[number]
    try:
        got = take_result(step, call, trace.kept, expected=wanted)
    except FitstepError as error:
        raise refusal(error, where, plain.before[number], probe) from None
    except (Exception, SystemExit) as error:
        raise Stop("raw", where, told(error)) from None
    trace.results.append(got)
    if got[0] != wanted[0]:
        raise Stop("SILENT", where, f"plain PyTorch {wanted[0]} {wanted[1]}, fitstep {got[0]}")
    compare(where, wanted[1], got[1])


def take_result(step: Any, call: Call, kept: list[Any], expected: Any = None) -> tuple[str, Any]:
    """Calls a step. Expected is what the other world did; an exception of that type is no fault."""
    try:
        value = step(*call.args, **call.kwargs)
    except BaseException as error:
        name = type(error).__name__
        if expected == ("raised", name) or (expected is None and call.raises):
            kept.append(None)
            return "raised", name
        raise
    kept.append(value)
    return "returned", snapshot(value)


def refusal(
    error: BaseException, where: str, before: Any, probe: Any, is_own: bool = False
) -> Stop:
    """The outcome of an exception that plain PyTorch does not raise here."""
    from fitstep import FitstepError

    if not isinstance(error, FitstepError) and not is_own:
        return Stop("raw", where, told(error))
    if where != "compile" and FOUND.search(str(error)):
        return Stop("found", where, told(error))
    changed = differences(without_writes(before), without_writes(state(probe)))
    if changed:
        return Stop("late", where, f"{told(error)} | differs: {'; '.join(changed)}")
    return Stop("refused", where, told(error))


def told(error: BaseException) -> str:
    """An exception's type, text and innermost places."""
    text = f"{type(error).__name__}: {error}"
    if type(error).__module__.startswith("fitstep"):
        return text
    places = traceback.extract_tb(error.__traceback__)[-3:]
    return text + " at " + ", ".join(f"{Path(p.filename).name}:{p.lineno}" for p in places)


def act(item: Do, number: int) -> None:
    """Something outside the step: must work as it does in plain PyTorch."""
    try:
        item.act()
    except Exception as error:
        raise Stop("raw", f"between calls, after {number}", told(error)) from None


def compare(where: str, wanted: Any, got: Any) -> None:
    """Raises Stop if two snapshots differ."""
    found = differences(wanted, got)
    if found:
        raise Stop("SILENT", where, "; ".join(found))


def example_of(calls: list[Any], which: int) -> tuple[Any, ...]:
    """The arguments with which step number `which` is compiled: those of its first call."""
    for item in calls:
        if isinstance(item, Do | Later):
            continue
        call = to_call(item, [])
        if call.which == which:
            return call.args if call.example is None else call.example
    raise ValueError(f"step {which} is never called")


def state(probe: Callable[[], Any]) -> Any:
    """The probe and all generators, as a snapshot."""
    return snapshot(
        {
            "probe": probe(),
            "torch generator": torch.get_rng_state(),
            "random generator": hash(random.getstate()),
            "numpy generator": np.random.get_state()[1],  # noqa: NPY002
        }
    )
