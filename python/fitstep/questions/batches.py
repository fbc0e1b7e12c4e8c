"""`fitstep.largest_batch`: which batch fits into a budget, by planning and not by training.

a few batches are asked about for real: recorded, measured, planned     Sample
between and beyond them: sizes on a straight line, planned only         Estimate
the answer was asked for real and fits; the next batch has no plan
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from .. import _core
from ..base.arguments import arguments_of
from ..base.describe import format_seconds
from ..errors import BudgetError, FitstepError, SettingError
from ..memory.budget import written
from ..memory.planned import Planned
from ..memory.profile_cache import TooLarge
from ..memory.settings import Settings
from ..state.rng import GeneratorStates
from ..steps.making import Making
from .asked import Asked, Show
from .fits import Fits, refused_by_size, verdict

_FIRST = 7  # A prime that divides few sizes: what is a multiple of it grows with the batch.
_CLOSE = 1e-5  # Estimates that are off by less are trusted for the next larger batch.
_MOST_ASKED = 24  # Batches that are measured; each takes as long as `fits`. Mostly 2 or 3 are.


@dataclass(frozen=True)
class LargestBatch:
    """The largest batch for which a plan was found, so that the next batch had none."""

    batch: int  # 0: not even the smallest batch fits. int(found) gives it, too.
    fits: Fits | None  # On it, measured; the plan of compile takes no longer. None if `batch` is 0.
    above: Fits | None  # That on the next larger batch; None if the search ended at `most`.
    next_batch: int | None  # The batch that `above` is about.
    is_measured_above: bool  # False: its sizes and times were computed from measured batches.
    asked: tuple[int, ...]  # The batches that were recorded and measured.
    seconds: float  # How long the question took.

    def __int__(self) -> int:
        return self.batch

    __index__ = __int__

    def __bool__(self) -> bool:
        return self.batch > 0

    def __str__(self) -> str:
        lines = [f"largest batch {self.batch}" if self.batch else "no batch fits"]
        if self.fits is not None and self.fits.predicted_s is not None:
            took_s = self.fits.predicted_s
            rate = self.batch / max(took_s, 1e-12)
            lines[0] += f": at most {format_seconds(took_s)} per step, so {rate:.4g}/s or more"
        if self.above is not None:
            how = "" if self.is_measured_above else ", computed from measured batches"
            lines.append(f"batch {self.next_batch}{how}: {str(self.above).splitlines()[0]}")
            lines += str(self.above).splitlines()[1:-1]
        asked = ", ".join(map(str, self.asked))
        return "\n".join([*lines, f"measured batches {asked}, in {self.seconds:.1f} s"])


@dataclass
class Sample:
    """A batch that was asked about for real."""

    fits: Fits
    asked: Asked | None  # None: an operator was too large to be measured.
    input_bytes: int
    is_thorough: bool = False  # A refusal: the planner has searched for long.


class BatchSearch:
    """Batches are counted in units of `unit` rows; `most` units are tried at most."""

    def __init__(
        self, making: Making, make_example: Callable[[int], Any], unit: int, most: int, show: Show
    ) -> None:
        self._making, self._make_example, self._show = making, make_example, show
        self._unit, self._most = unit, most
        self._samples: dict[int, Sample] = {}  # By units.
        self._estimates: dict[int, Fits] = {}  # By units, the last ones.
        self._is_straight = False  # The last sample was as estimated.
        self._first_shapes: tuple[int, list[torch.Size]] = 0, []  # Of the first batch's inputs.

    def run(self) -> LargestBatch:
        """Asks about a first batch, then about the largest that is estimated to fit, until the
        next larger one has no plan."""
        fitting, refused = 0, self._most + 1
        above: Fits | None = None
        guess = min(_FIRST, self._most)
        while True:
            if len(self._samples) >= _MOST_ASKED:
                raise self._gave_up(fitting, refused)
            is_expected = bool(self._estimates.get(guess))
            if self._sample(guess).fits or (is_expected and self._fits_after_all(guess)):
                fitting = guess
            else:
                refused = guess
            while fitting + 1 >= refused and self._fits_after_all(refused):
                fitting, refused = refused, self._smallest_refused(above=refused)
            if fitting + 1 >= refused:
                break
            guess, estimated = self._next(fitting, refused)
            if guess == fitting and self._is_straight:
                refused, above = fitting + 1, estimated
                break
            guess = max(guess, fitting + 1)
        is_measured = refused in self._samples
        above = self._samples[refused].fits if is_measured else above
        smallest = self._samples[1].asked if fitting == 0 and 1 in self._samples else None
        if smallest is not None:
            above = verdict(smallest)  # Names the budget that the smallest batch needs.
        return LargestBatch(
            fitting * self._unit, self._samples[fitting].fits if fitting else None, above,
            refused * self._unit if above is not None else None, is_measured,
            tuple(sorted(n * self._unit for n in self._samples)), 0.0,
        )  # fmt: skip

    def _fits_after_all(self, units: int) -> bool:
        """Whether a thorough search finds a plan for a batch that was asked about for real."""
        sample = self._samples.get(units)
        if sample is None or sample.asked is None or sample.is_thorough:
            return False
        sample.fits, sample.is_thorough = verdict(sample.asked, finds_least=False), True
        return bool(sample.fits)

    def _smallest_refused(self, *, above: int) -> int:
        refused = [n for n, one in self._samples.items() if n > above and not one.fits]
        return min(refused, default=self._most + 1)

    def _gave_up(self, fitting: int, refused: int) -> FitstepError:
        return FitstepError(
            f"after {_MOST_ASKED} measured batches the largest is from {fitting * self._unit} to "
            f"{(refused - 1) * self._unit}",
            todo=f"pass most={max(fitting, 1) * self._unit} to be content with the smaller one, or "
            "a larger multiple_of=",
        )

    def _sample(self, units: int) -> Sample:
        batch = units * self._unit
        generators = GeneratorStates()
        try:
            with _noting(batch):
                example = self._make_example(batch)
            if not self._samples:
                again = self._make_example(batch)
                self._check_repeats(batch, _input_bytes(example), _input_bytes(again))
        finally:
            generators.restore()
        args = arguments_of(self._making.subject.function, example)
        self._check_rows(batch, [leaf.shape for leaf in _tensors_in(args)])
        input_bytes = _input_bytes(args)
        show = self._show and _named(self._show, f"batch {batch}: ")
        try:
            with _noting(batch):
                asked = Asked.of(self._making, args, show, keeps_to_budget=units > 1)
        except TooLarge as large:
            self._samples[units] = Sample(refused_by_size(large), None, input_bytes)
        else:
            found = verdict(asked, finds_least=False, takes_first_plan=True)
            self._samples[units] = Sample(found, asked, input_bytes)
        self._check_grows(units)
        self._is_straight = units in self._estimates and _are_close(
            self._estimates[units], self._samples[units].fits
        )
        return self._samples[units]

    def _check_repeats(self, batch: int, first_bytes: int, second_bytes: int) -> None:
        """Raises SettingError if two examples of one batch have other sizes."""
        if first_bytes != second_bytes:
            raise SettingError(
                "make_example", self._make_example, "a function that makes an equally large "
                f"example whenever it is asked for n rows; for n = {batch} it made one of "
                f"{first_bytes} bytes, then one of {second_bytes} (does it read a loader?)",
            )  # fmt: skip

    def _check_rows(self, batch: int, shapes: list[torch.Size]) -> None:
        """Raises SettingError if an input has neither as many rows as asked for nor as many as at
        the first batch."""
        first, first_shapes = self._first_shapes
        if not first_shapes:
            self._first_shapes = batch, shapes
        for before, shape in zip(first_shapes, shapes, strict=False):
            for was, rows in zip(before, shape, strict=False):
                if was == first and rows not in (was, batch):
                    raise SettingError(
                        "make_example", self._make_example, "a function that makes an example of "
                        f"as many rows as it is asked for; for n = {batch} it made one of {rows} "
                        f"(if its data end there, pass most={rows})",
                    )  # fmt: skip

    def _check_grows(self, units: int) -> None:
        """Raises SettingError if two batches are equally large."""
        of = self._samples[units]
        for other, one in self._samples.items():
            is_same = (one.input_bytes, one.fits.plain_peak_bytes) == (
                of.input_bytes,
                of.fits.plain_peak_bytes,
            )
            if other != units and is_same:
                sizes = f"{other * self._unit} and {units * self._unit}"
                raise SettingError(
                    "make_example", self._make_example, "a function that returns the example of a "
                    f"batch of n rows; for n = {sizes} the step needs the same memory (if it pads "
                    "to a multiple of k, pass multiple_of=k, too)",
                )  # fmt: skip

    def _budget_bytes(self) -> int:
        budget = self._making.settings.budget
        sizes = budget.values() if isinstance(budget, Mapping) else [budget]
        return max(written("budget", size).bytes for size in sizes)

    def _next(self, fitting: int, refused: int) -> tuple[int, Fits | None]:
        """The batch to ask about next: the largest that is estimated to fit. `fitting` with the
        verdict on the next one if that is estimated not to fit. Without an estimate a batch in the
        middle, or twice the largest that fits."""
        last = list(self._samples.values())[-1]
        if last.asked is None:  # The estimate that led there was far off, and nothing is known now.
            return max(math.isqrt(fitting * refused), fitting + 1), None
        try:
            return self._largest_estimated(fitting, refused)
        except _core.CoreError:
            if refused > self._most:
                return min(max(2 * fitting, 1), refused - 1), None
            return (fitting + refused) // 2, None

    def _largest_estimated(self, fitting: int, refused: int) -> tuple[int, Fits | None]:
        measured = sorted((n, one.asked) for n, one in self._samples.items() if one.asked)
        low = fitting
        # A refusal that two other batches gave is the same with this one on their straight line.
        is_known = len(measured) > 2 and self._is_straight
        is_refused = is_known and not self._estimates.get(low + 1, True)
        if len(measured) == 1 or (
            not is_refused and self._estimate(measured, low + 1, takes_first_plan=True)
        ):
            low = self._by_any_plan(measured, fitting, refused)
        if low > fitting:
            return low, None  # It is measured before a thorough search for more.
        # A thorough search may find plans for a few batches more.
        found = self._estimate(measured, low + 1) if low + 1 < refused else None
        if not found:
            return low, found
        low, high, stride = low + 1, refused, 2
        while low + 1 < high:
            bound = _first_too_large(self._estimates)
            if low < bound < high:
                high = bound
                continue
            at = min(low + stride, (low + high) // 2)
            low, high = (at, high) if self._estimate(measured, at) else (low, at)
            stride *= 2
        return low, None

    def _by_any_plan(self, measured: list[tuple[int, Asked]], fitting: int, refused: int) -> int:
        """The largest number of units for which the planner finds a plan at once."""
        known = {n: one.fits for n, one in self._samples.items()}
        low, high = fitting, refused
        if refused > self._most and len(measured) == 1:
            high = min(high, max(self._most_by_inputs(measured[0][0]), low + 2))
        is_near, back = len(measured) > 1, 1  # Whether `high` is close to what fits.
        while low + 1 < high:
            bound = _first_too_large(known)
            if low < bound < high:
                high, is_near = bound, True
                continue
            middle = math.isqrt(low * high) if high > 4 * low else (low + high) // 2
            at = min(max(high - back if is_near else middle, middle, low + 1), high - 1)
            known[at] = self._estimate(measured, at, takes_first_plan=True)
            low, high = (at, high) if known[at] else (low, at)
            back *= 2
        return low

    def _most_by_inputs(self, units: int) -> int:
        """From this number of units on, the inputs alone fill the budget, if all grow alike."""
        each = max(self._samples[units].input_bytes // units, 1)
        return max(self._budget_bytes() // each, units + 1) + 1

    def _estimate(
        self, measured: list[tuple[int, Asked]], units: int, *, takes_first_plan: bool = False
    ) -> Fits:
        """The verdict on a batch by sizes and times that are computed from measured batches. Raises
        CoreError if there is none, or if the number of programs differs."""
        near = sorted(measured, key=lambda one: abs(one[0] - units))[:2]
        if not near:
            raise _core.CoreError(0, "no batch was measured")
        (first, a), (second, b) = near[0], near[-1]
        if len(a.programs) != len(b.programs):
            raise _core.CoreError(0, "the number of programs differs from batch to batch")
        steps = [
            _step_for((one.step, first), (other.step, second), units)
            for one, other in zip(a.programs, b.programs, strict=True)
        ]
        programs = [Planned.of(step, a.planning.settings) for step in steps]
        asked = Asked(a.planning, programs, a.steady, a.beside)
        found = verdict(asked, finds_least=False, takes_first_plan=takes_first_plan)
        self._estimates[units] = found
        return found


def _step_for(near: tuple[Any, int], other: tuple[Any, int], units: int) -> Any:
    """A program of another batch: by a straight line, or by the nearer batch alone if the programs
    differ in more than sizes."""
    if near[1] != other[1]:
        with contextlib.suppress(_core.CoreError):
            return _core.resized(*near, *other, units)
    return _core.guessed(*near, units)


def _tensors_in(args: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)]


def _input_bytes(args: Any) -> int:
    return sum(leaf.nbytes for leaf in _tensors_in(args))


@contextlib.contextmanager
def _noting(batch: int) -> Iterator[None]:
    """Adds the batch to what the user's code raises in its body."""
    try:
        yield
    except FitstepError:
        raise
    except Exception as error:
        if sys.version_info >= (3, 11):
            error.add_note(
                f"raised where fitstep.largest_batch asked about a batch of {batch}; if the step "
                "needs a multiple of k rows, pass multiple_of=k"
            )
        raise


def _are_close(estimated: Fits, measured: Fits) -> bool:
    """Whether a batch needs as much as was estimated."""
    return all(
        abs(a - b) <= _CLOSE * b
        for a, b in (
            (estimated.floor_bytes, measured.floor_bytes),
            (estimated.plain_peak_bytes, measured.plain_peak_bytes),
        )
    )


def check_sizes(settings: Settings) -> None:
    """Raises BudgetError for a budget that grows with the batch."""
    if isinstance(settings.budget, Mapping) and {*settings.budget} <= {"disk"}:
        raise BudgetError(
            f"{settings.budget!r} names no size for the memory",
            todo='write a size for the device, too, such as {0: "8GiB", "disk": "64GiB"}',
        )
    of_all = settings.budget if isinstance(settings.budget, Mapping) else {"": settings.budget}
    for size in (*of_all.values(), settings.host_budget, settings.disk_budget):
        if size is not None and written("budget", size).percent:
            raise BudgetError(
                f"{size!r} is a share of what plain PyTorch needs, which grows with the batch",
                todo='write a size, such as budget="8GiB"',
            )
    if settings.budget is None:
        raise BudgetError("budget=None is no size", todo='write for example budget="8GiB"')


def _first_too_large(known: dict[int, Fits]) -> int:
    """From where on the floor is above the budget, by a straight line through the floors of the two
    smallest refused batches; 0 if there are not two. Floors are convex: below, they are higher."""
    refused = sorted(n for n, one in known.items() if not one)[:2]
    if len(refused) < 2:
        return 0
    a, b = refused
    slope = (known[b].floor_bytes - known[a].floor_bytes) / (b - a)
    if slope <= 0:
        return 0
    return math.floor(a - (known[a].floor_bytes - known[a].budget_bytes) / slope) + 1


def _named(show: Callable[[str, float], None], prefix: str) -> Callable[[str, float], None]:
    return lambda what, share: show(prefix + what, share)
