"""A compiled step: follows the user's function, and runs what it records by verified plans."""

from __future__ import annotations

import copy
import functools
import time
import types
import warnings
from collections.abc import Callable
from pickle import PicklingError
from typing import Any

import torch

from . import _core
from .addresses import check_no_address
from .ambient import ambient
from .audits import Audits
from .calls import Call
from .describe import describe_op
from .errors import BudgetTooSmall, CaptureError, not_prepared
from .following import Following, current
from .homes import Homes
from .least import plan_or_say
from .maker import Maker
from .planned import Planned
from .pure import unplanned
from .report import Measured, Report, SavedText, make_report
from .results import detached
from .seen_memory import ArrayIsAlive, check_not_lent, fill_hollow_tensors
from .session import Session
from .sessions import ghosts
from .uninterrupted import uninterrupted
from .usable import alone, check_usable
from .variants import Recorded, Variant

_MOST_IN_CALL = 8  # Times the variants that are kept.


class Step:
    """What `fitstep.compile` returns. Call it like the step function it was made from.

    Returned tensors are detached.
    """

    def __init__(
        self, maker: Maker, session: Session, most_variants: int, audits: str = "auto"
    ) -> None:
        self._maker = maker
        self._session = session
        self._most_variants = most_variants
        self._variants: list[Variant] = []  # In the order in which they were made.
        self._used = self._used_before = 0  # Runs of variants; and before the present call.
        self.audits = Audits(audits)
        self._previewed = 0  # Variants that compile has found.
        self._last: Variant | None = None
        self._call: Call | None = None
        self._following = Following(maker.cache.profile, self._flush, session.room)
        self.dropping: dict[int, torch.Tensor] = {}  # Parameters whose gradients a call drops.
        self.measured: dict[int, Measured] = {}
        self.example: tuple[Any, ...] = ()
        self.plain_peak_bytes = 0
        self.recorded_calls = 0
        self.compile_seconds: dict[str, float] = {}
        session.steps.add(self)
        functools.update_wrapper(self, maker.function, updated=())

    def __copy__(self) -> Step:
        """Itself, as of any function."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Itself, but of a method: that of the copied object, which is not compiled."""
        function = self._maker.function
        if not isinstance(function, types.MethodType):
            return self
        warnings.warn(
            f"a copy of {function.__qualname__}() is bound to the copied object, and runs as plain "
            "PyTorch: compile it",
            stacklevel=2,
        )
        return copy.deepcopy(function, memo)

    def __getattr__(self, name: str) -> Any:
        """What the function has, as a count of its calls."""
        if name in ("_maker", "__wrapped__") or name not in getattr(
            self._maker.function, "__dict__", ()
        ):
            raise AttributeError(f"a compiled step has no attribute {name!r}", name=name, obj=self)
        return getattr(self._maker.function, name)

    def __setattr__(self, name: str, value: Any) -> None:
        function = self.__dict__.get("__wrapped__")
        is_own = function is None or name in self.__dict__ or hasattr(type(self), name)
        object.__setattr__(self if is_own else function, name, value)

    def __reduce__(self) -> Any:
        raise PicklingError(
            "a compiled step cannot be pickled or saved: save the state_dict() of model and "
            "optimizer, and compile anew where they are loaded"
        )

    # -- making variants ---------------------------------------------------------------------

    def prepare(self, args: tuple[Any, ...], plan: Any = None) -> None:
        """Previews the function and makes all variants ready that its first calls lead to. Raises
        before anything of the user's has changed."""
        began = time.perf_counter()
        self.example = args
        try:
            found = self._maker.preview(args, {})
        except BaseException:
            fill_hollow_tensors(ghosts())
            raise
        self._maker.cache.write()
        captured = time.perf_counter()
        self.recorded_calls = found.recorded_calls
        self._session.grads_in_use |= found.grads_in_use
        self.dropping = found.dropping
        try:
            self.add(found.variants, plan)
        except BudgetTooSmall as error:
            if found.between and hasattr(error, "add_note"):  # Python 3.10 has none.
                error.add_note(unplanned(found.between))
            raise
        self._previewed = len(self._variants)
        planned = time.perf_counter()
        self.compile_seconds = {"capture": captured - began, "plan": planned - captured}

    def add(self, variants: list[Variant], plan: Any = None) -> None:
        """Plans, verifies and makes ready. Raises before anything of the user's has changed."""
        if not variants:
            return
        self.audits.has_new = True
        session, planning = self._session, self._session.planning
        first = not session.is_open
        peaks = [v.step.plain_peak_bytes() for v in variants]
        self.plain_peak_bytes = max([self.plain_peak_bytes, *peaks])
        if first:
            planning.set_budget(self.plain_peak_bytes, self._maker.cache)
        bottom, mark = session.bottom_bytes, planning.places.mark()
        tensors = self.add_homes(variants)
        new = [
            Planned.of(v.step, session.settings, plan if v is variants[-1] else None)
            for v in variants
        ]
        try:
            self._check_no_address({n: t for n, t in tensors.items() if not session.home_of(t)})
            grown = session.bottom_bytes > bottom and not first
            plans = plan_or_say(planning, new, replan=grown)
        except BudgetTooSmall:
            if first or not planning.is_free:
                planning.places.back_to(mark)
                raise
            try:
                check_not_lent(session.lent(), lambda t: session.name_of(t, "a tensor"))
                check_no_address(self._find_reach(), self._at_home(), is_growing=True)
            except (ArrayIsAlive, CaptureError):
                planning.places.back_to(mark)
                raise
            with uninterrupted():
                session.grow(new, self.plain_peak_bytes, tensors)
                self._settle(variants, new, replanned=False)
                for step in session.steps:
                    for variant in step._variants:
                        variant.note_homes(session)
            return
        except BaseException:
            planning.places.back_to(mark)
            raise
        with uninterrupted():  # All tensors move into their homes, or none.
            try:
                session.open(plans, tensors)
            except BaseException:
                planning.places.back_to(mark)
                raise
            self._settle(variants, plans, grown)

    def _check_no_address(self, moving: dict[str, torch.Tensor]) -> None:
        if moving:
            check_no_address(self._find_reach(), moving)

    def _at_home(self) -> dict[str, torch.Tensor]:
        homes = self._session.homes
        return {name: home.tensor for name, home in homes.items() if home.tensor is not None}

    def add_homes(self, variants: list[Variant]) -> dict[str, torch.Tensor]:
        """Makes places for all that has to be at home. Returns what is there already."""
        tensors: dict[str, torch.Tensor] = {}
        for variant in variants:
            for name, (size, on_device) in variant.sizes.items():
                self._session.planning.places.add(name, size, may_be_below=on_device)
            for name, tensor in variant.tensors.items():
                tensors.setdefault(name, tensor)
            variant.tensors = {}
        return tensors

    @property
    def _most(self) -> int:
        return max(self._most_variants, 2 * self._previewed)  # Each may take another branch.

    @property
    def has_room(self) -> bool:
        """For one more variant, with none forgotten."""
        return len(self._variants) < self._most

    def _make_room(self) -> None:
        """Forgets the variants that were used least recently, where there are too many. A call that
        needs more keeps them, up to a limit, or the next one would make them anew."""
        in_call = sum(one.last_used > self._used_before for one in self._variants)
        spare = len(self._variants) - max(self._most, min(in_call, _MOST_IN_CALL * self._most))
        for old in sorted(self._variants, key=lambda variant: variant.last_used)[: max(spare, 0)]:
            self._variants.remove(old)
            self._session.planning.forget(old.planned)
            self.measured.pop(id(old), None)

    def _settle(self, variants: list[Variant], plans: list[Planned], replanned: bool) -> None:
        session, known = self._session, self._session.planning.planned
        if replanned:
            for old, new in zip(known, plans, strict=False):
                old.take_over(new)
            plans = plans[len(known) :]
        for variant, planned in zip(variants, plans, strict=True):
            variant.planned = planned
            known.append(planned)
            variant.note_homes(session)
        self._variants += variants

    def forget(self, variant: Variant) -> None:
        """The program is never run again."""
        self._variants.remove(variant)
        self._session.planning.forget(variant.planned)

    def add_in_call(self, variant: Variant, one: Recorded) -> Variant:
        """Makes the variant of what a call has recorded ready; or another one for the same."""
        try:
            self.add([variant])
        except ArrayIsAlive:  # What it shows stays where it is; all programs are to be made anew.
            self._check_no_address(self._at_home())
            for step in self._session.steps:
                step._variants, step._previewed = [], 0
            self._following.core.set_known([])
            self._session.leave_arena()
            self._session.planning.places = Homes(self._session.device.alignment_bytes())
            variant = self._maker.take_up(one)
            self.add([variant])
        return variant

    def variant_of(self, segment: Any) -> Variant:
        """The variant of a known segment."""
        return next(v for v in self._variants if v.segment is segment)

    def take_up(self, one: Recorded) -> Variant:
        """The variant of a segment that a call has and nobody knew."""
        try:
            variant = self._maker.take_up(one)
            self._maker.cache.write(at_once=False)
            variant = self.add_in_call(variant, one)
        except _core.CoreError as error:
            raise not_prepared(error) from None
        self._following.core.add_known(variant.segment)
        return variant

    # -- running -----------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs one training step and returns what the step function returns.

        The function itself runs, as with plain PyTorch, but for the kernels of the operators that
        it calls: these run behind it, by a plan. Where Python asks for the value of a tensor
        (`.item()`, `bool(t)`), what was called so far runs first. All that the function changes is
        as plain PyTorch would have left it, bit for bit. Returned tensors are detached.

        Operators, shapes or flags that no earlier call had make a new program first; of more than
        `max_variants` programs the one that was used least recently is forgotten.

        `p.grad` is None afterwards, unless no optimizer in the step has used the gradient, a later
        step reads it, or `keep_grads=True` was given.

        Raises:
            CaptureError, BudgetTooSmall: of a new program; what the function did before stays.
            StepFailed: the step stopped half-way; says what is unusable, if anything.
            FitstepError: the step was closed, or runs already.
        """
        check_usable(self._session)
        outer = current()
        # One step calls another: it is a part of that one; but not from inside a kernel.
        if outer is not None and not outer.is_running:
            return detached(self._maker.function(*args, **kwargs))
        with uninterrupted() as may_interrupt, alone(self._session):
            self._used_before = self._used
            is_due = self.audits.is_due(self._session, self.plain_peak_bytes)
            audits = self.audits if is_due else None
            began = time.perf_counter()
            self._call = Call(self, self._session, self._maker, args, kwargs, may_interrupt, audits)
            try:
                result = self._call.run(self._following)
                if is_due:  # What is new in it has been compared.
                    self.audits.audited_calls += 1
                    self.audits.has_new = False
                return result
            finally:
                self.audits.seconds += time.perf_counter() - began if is_due else 0
                self._call = None
                self._following.forget()
                self._make_room()

    def _flush(self, name: str) -> bool:
        assert self._call is not None
        self._call.end_segment(self._following)
        return True

    def known(self) -> list[Any]:
        """The segments to follow, that which ran last first."""
        now = ambient()
        fitting = [v for v in self._variants if v.ambient == now]
        return [v.segment for v in sorted(fitting, key=lambda v: -v.last_used)]

    def note(self, variant: Variant, seconds: float) -> None:
        """One more run of a variant."""
        self._used += 1
        variant.last_used = self._used
        self.measured.setdefault(id(variant), Measured()).note(seconds)
        self._last = variant

    # -- what the user can ask ---------------------------------------------------------------

    @property
    def variants(self) -> list[Variant]:
        """The programs of the step, in the order in which they were made: one for its first call,
        which makes optimizer state, one for later calls, more for other shapes and flags; several
        for a call that asks for a tensor's value."""
        return list(self._variants)

    @property
    def _current(self) -> Variant:
        return self._last or self.variants[-1]

    @property
    def program(self) -> SavedText:
        """The program of the variant that ran last; `step.program.save(path)` keeps it."""
        return SavedText("program", self._current.step.text)

    @property
    def plan(self) -> SavedText:
        """The plan of the variant that ran last; `step.plan.save(path)` keeps it, and
        `fitstep.compile(..., plan=path)` runs it after verifying it again."""
        assert self._current.planned is not None
        return SavedText("plan", self._current.planned.plan.text)

    @property
    def function(self) -> Callable[..., Any]:
        """The step function that was compiled."""
        return self._maker.function

    def _find_reach(self) -> Any:
        """All that the step function can reach, as it is now."""
        return self._maker.find_reach()

    @property
    def unrepeatable(self) -> list[str]:
        """Operators of the step that do not repeat their own bits from run to run, with the place
        in the user's code. They are kept, never recomputed."""
        return sorted(
            {describe_op(v.step, op) for v in self.variants for op in v.step.unrepeatable()}
        )

    @property
    def budget_bytes(self) -> int:
        """The budget in bytes, which all compiled steps of the model share."""
        return self._session.planning.budget_bytes

    def report(self) -> Report:
        """Predicted against measured: peak, time, what was kept and recomputed."""
        return make_report(self, self._session)

    def check(self, steps: int = 3, *, example: Any = None) -> Any:
        """Runs the same steps with plain PyTorch and with this step, and compares all bits.

        `example`: the arguments, a tuple; those of compile if not given. Neither the model nor the
        optimizer is changed. Returns a result that prints what was compared; raises FitstepError
        if a bit differs.
        """
        from .check import run_check

        return run_check(self, steps, example)

    def close(self) -> None:
        """Gives all memory back but that of the model's and the optimizer's tensors, which stay
        where they are. The model stays usable; the step does not.

        Closes all compiled steps that share this step's arena.
        """
        self._maker.cache.write()
        self._session.close()

    def __repr__(self) -> str:
        state = "closed" if self._session.is_closed else f"{len(self.variants)} variants"
        return f"<fitstep step: budget {_core.format_bytes(self.budget_bytes)}, {state}>"
