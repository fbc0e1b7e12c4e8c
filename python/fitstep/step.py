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

from . import _core
from .audits import Audits
from .calls import Call
from .errors import BudgetTooSmall, FitstepError
from .following import Following, current
from .maker import Maker
from .programs import Programs
from .pure import unplanned
from .report import Report, SavedText, make_report
from .results import detached
from .seen_memory import fill_hollow_tensors
from .session import Session
from .sessions import ghosts
from .uninterrupted import uninterrupted
from .variants import Variant


class Step:
    """What `fitstep.compile` returns. Call it like the step function it was made from.

    Returned tensors are detached.
    """

    def __init__(
        self, maker: Maker, session: Session, most_variants: int, audits: str = "auto"
    ) -> None:
        self._maker = maker
        self._session = session
        self.audits = Audits(audits)
        self._call: Call | None = None
        self._following = Following(maker.cache.profile, self._flush, session.room)
        follower = self._following.core
        self._programs = Programs(maker, session, most_variants, self.audits, follower)
        self.example: tuple[Any, ...] = ()
        self.recorded_calls = 0
        self.compile_seconds: dict[str, float] = {}
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
        self._programs.dropping = found.dropping
        try:
            self._programs.add(found.variants, plan)
        except BudgetTooSmall as error:
            if found.between and hasattr(error, "add_note"):  # Python 3.10 has none.
                error.add_note(unplanned(found.between))
            raise
        self._programs.previewed = len(self._programs.variants)
        planned = time.perf_counter()
        self.compile_seconds = {"capture": captured - began, "plan": planned - captured}

    # -- running -----------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs one training step and returns what the step function returns.

        The function itself runs, as with plain PyTorch, but for the kernels of the operators that
        it calls: these run behind it, by a plan. Where Python asks for the value of a tensor
        (`.item()`, `bool(t)`), what was called so far runs first. All that the function changes is
        as plain PyTorch would have left it, bit for bit. Returned tensors are detached.

        Operators, shapes or flags that no earlier call had make a new program first; of more than
        `max_variants` programs the one that was used least recently is forgotten. A call that needs
        more has room for twice those it needs, up to eight times `max_variants`.

        `p.grad` is None afterwards, unless no optimizer in the step has used the gradient, a later
        step reads it, or `keep_grads=True` was given.

        Raises:
            CaptureError, BudgetTooSmall: of a new program; what the function did before stays.
            StepFailed: the step stopped half-way; says what is unusable, if anything.
            FitstepError: the step was closed, or runs already.
        """
        self._session.access.check()
        outer = current()
        # One step calls another: it is a part of that one; but not from inside a kernel.
        if outer is not None and not outer.is_running:
            return detached(self._maker.function(*args, **kwargs))
        with uninterrupted() as may_interrupt, self._session.access.alone():
            self._programs.begin_call()
            is_due = self.audits.is_due(self._session, self._programs.plain_peak_bytes)
            audits = self.audits if is_due else None
            began = time.perf_counter()
            self._call = Call(self._programs, args, kwargs, may_interrupt, audits)
            try:
                result = self._call.run(self._following)
                if is_due and not self._call.is_left_out:  # What is new in it has been compared.
                    self.audits.audited_calls += 1
                    self.audits.has_new = False
                return result
            finally:
                self.audits.seconds += time.perf_counter() - began if is_due else 0
                self._call = None
                self._following.forget()
                self._programs.make_room()

    def _flush(self, name: str) -> bool:
        assert self._call is not None
        self._call.end_segment(self._following)
        return True

    # -- what the user can ask ---------------------------------------------------------------

    @property
    def variants(self) -> list[Variant]:
        """The programs of the step, in the order in which they were made: one for its first call,
        which makes optimizer state, one for later calls, more for other shapes and flags; several
        for a call that asks for a tensor's value."""
        return list(self._programs.variants)

    @property
    def _current(self) -> Variant:
        known = self.variants[-1:] if self._programs.last is None else [self._programs.last]
        if not known:  # There was no memory for an arena.
            raise FitstepError("the step has no program now", todo="call it, which makes one")
        return known[0]

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

    @property
    def unrepeatable(self) -> list[str]:
        """Operators of the step that do not repeat their own bits from run to run, with the place
        in the user's code. They are kept, never recomputed."""
        return self._programs.unrepeatable

    @property
    def budget_bytes(self) -> int:
        """The budget in bytes, which all compiled steps of the model share."""
        return self._session.planning.budget_bytes

    def report(self) -> Report:
        """Predicted against measured: peak, time, what was kept and recomputed."""
        return make_report(self._programs)

    def check(self, steps: int = 3, *, example: Any = None) -> Any:
        """Runs the same steps with plain PyTorch and with this step, and compares all bits.

        `example`: the arguments, a tuple; those of compile if not given. Neither the model nor the
        optimizer is changed. Returns a result that prints what was compared; raises FitstepError
        if a bit differs.
        """
        from .check import run_check

        return run_check(self, self._programs, steps, self.example if example is None else example)

    def close(self) -> None:
        """Gives all memory back but that of the model's and the optimizer's tensors, which stay
        where they are. The model stays usable; the step does not.

        Closes all compiled steps that share this step's arena.
        """
        self._maker.cache.write()
        self._session.close()

    def __repr__(self) -> str:
        state = "closed" if self._session.access.is_closed else f"{len(self.variants)} variants"
        return f"<fitstep step: budget {_core.format_bytes(self.budget_bytes)}, {state}>"
