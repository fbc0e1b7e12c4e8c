"""A compiled step: records what the user's function calls, and runs it by verified plans."""

from __future__ import annotations

import copy
import functools
import time
import types
import warnings
from collections.abc import Callable
from pickle import PicklingError
from typing import Any

from .. import _core
from ..base.describe import counted
from ..base.uninterrupted import uninterrupted
from ..errors import BudgetTooSmall, FitstepError
from ..follow.following import Following, current
from ..follow.maker import Maker
from ..follow.pure import unplanned
from ..follow.results import detached
from ..follow.variants import Variant
from ..memory.seen_memory import fill_hollow_tensors
from ..memory.session import Session
from .audits import Audits
from .calls import Call
from .programs import Programs
from .report import Report, SavedText, make_report
from .sessions import ghosts


class Step:
    """What `fitstep.compile` returns. Call it like the step function: `loss = step(x, y)`.

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
        self._example_kwargs: dict[str, Any] = {}
        self.recorded_calls = 0
        self.compile_seconds: dict[str, float] = {}
        functools.update_wrapper(self, maker.function, updated=())

    def __copy__(self) -> Step:
        """Returns itself, as copies of functions do."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Returns itself; for a method, the copied object's method, which is not compiled."""
        function = self.function
        if not isinstance(function, types.MethodType):
            return self
        warnings.warn(
            f"a copy of {function.__qualname__}() is bound to the copied object, and runs as plain "
            "PyTorch: call fitstep.compile on the copied object's method",
            stacklevel=2,
        )
        return copy.deepcopy(function, memo)

    def __getattr__(self, name: str) -> Any:
        """Attributes of the step function, for example a counter `train_step.calls`."""
        function = vars(self).get("__wrapped__")
        if name not in getattr(function, "__dict__", ()):
            raise AttributeError(f"a compiled step has no attribute {name!r}", name=name, obj=self)
        return getattr(function, name)

    def __setattr__(self, name: str, value: Any) -> None:
        function = self.__dict__.get("__wrapped__")
        is_own = function is None or name in self.__dict__ or hasattr(type(self), name)
        object.__setattr__(self if is_own else function, name, value)

    def __reduce__(self) -> Any:
        raise PicklingError(
            "a compiled step cannot be pickled or saved: save the state_dict() of model and "
            "optimizer, and call fitstep.compile again after loading them"
        )

    # -- making variants ---------------------------------------------------------------------

    def prepare(
        self, args: tuple[Any, ...], plan: Any = None, kwargs: dict[str, Any] | None = None
    ) -> None:
        """Previews the function, and plans all variants that its first calls need. Raises before
        any user state has changed."""
        began = time.perf_counter()
        self.example, self._example_kwargs = args, kwargs or {}
        try:
            found = self._maker.preview(args, self._example_kwargs)
        except BaseException as error:
            fill_hollow_tensors(ghosts())
            if isinstance(error, BudgetTooSmall):
                error.say_nothing_changed()
            raise
        previewed = time.perf_counter()
        self.recorded_calls = found.recorded_calls
        self._session.grads_in_use |= found.grads_in_use
        self._programs.dropping = found.dropping
        try:
            self._programs.add(found.variants, plan)
        except BudgetTooSmall as error:
            error.say_nothing_changed()
            if found.between and hasattr(error, "add_note"):  # Python 3.10 has none.
                error.add_note(unplanned(found.between))
            raise
        self._programs.previewed = len(self._programs.variants)
        planned = time.perf_counter()
        self.compile_seconds = {"preview": previewed - began, "plan": planned - previewed}

    # -- running -----------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs one training step and returns what the step function returns, tensors detached.

        The step function's Python code runs as always. Its operators are recorded, and their
        kernels run later, by a plan. If Python asks for the value of a tensor (`.item()`,
        `bool(t)`), the kernels that were recorded so far run first. Everything that the function
        changes has plain PyTorch's bits afterwards.

        A call with new operators, shapes or flags plans a new program, which takes 0.1 s or more.
        If there are more than `max_variants` programs, the least recently used one is forgotten. A
        call that needs more keeps twice what it needs, up to eight times `max_variants`.

        After the call gradients that an optimizer of the step has used are gone: code outside
        steps that reads `p.grad` gets a FitstepError. They stay if a later step reads them, or if
        `keep_grads=True` was passed.

        Raises:
            CaptureError, BudgetTooSmall: for a new program; what the function did before stays.
            StepFailed: the step stopped half-way; `unusable` names tensors with lost values.
            AuditError: this call was audited, and fitstep's bits were not plain PyTorch's.
            FitstepError: the step was closed, or another call of it is running.
        """
        self._session.access.check()
        outer = current()
        # A step that another step calls is a part of that other step, unless a kernel calls it.
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
                if is_due and not self._call.is_left_out:  # Its new programs were compared, too.
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
        """The programs of the step, the oldest first: one for the first call, which creates
        optimizer state, one for later calls, one more for each other shape or flag. A call that
        asks for tensors' values has several."""
        return list(self._programs.variants)

    @property
    def _current(self) -> Variant:
        known = self.variants[-1:] if self._programs.last is None else [self._programs.last]
        if not known:  # There was no memory for an arena.
            raise FitstepError("the step has no program now", todo="call the step first")
        return known[0]

    @property
    def program(self) -> SavedText:
        """The program that ran last; `step.program.save(path)` writes it to a file."""
        return SavedText("program", self._current.step.text)

    @property
    def plan(self) -> SavedText:
        """The plan that ran last. `step.plan.save(path)` writes it to a file;
        `fitstep.compile(..., plan=path)` verifies the file again and runs it."""
        assert self._current.planned is not None
        return SavedText("plan", self._current.planned.plan.text)

    @property
    def function(self) -> Callable[..., Any]:
        """The step function that was compiled."""
        return self._maker.function

    @property
    def unrepeatable(self) -> list[str]:
        """Operators of the step whose bits differ from run to run, each with file and line. Plans
        keep their results and never recompute them."""
        return self._programs.unrepeatable

    @property
    def budget_bytes(self) -> int:
        """The budget in bytes. All compiled steps of the model share it."""
        return self._session.planning.budget_bytes

    def report(self) -> Report:
        """Memory and time, predicted and measured, of every program. `print` it."""
        return make_report(self._programs)

    def check(self, steps: int = 3, *, example: Any = None) -> Any:
        """Runs `steps` steps by fitstep and by plain PyTorch, and compares all bits.

        `example`: the arguments as a tuple; None: those that the step was compiled with. Model and
        optimizer are as before afterwards. Returns a CheckResult, which prints what was compared.
        Raises FitstepError if a bit differs, or if plain PyTorch has too little memory.
        """
        from .check import run_check

        if example is None:
            return run_check(self, self._programs, steps, self.example, self._example_kwargs)
        return run_check(self, self._programs, steps, example, {})

    def close(self) -> None:
        """Frees the step's memory. The tensors of model and optimizer keep theirs and stay usable;
        the step does not. Raises FitstepError while a step of the model runs.

        Closes all compiled steps of the same model, because they share one arena.
        """
        self._maker.cache.write()
        self._session.close()

    def __repr__(self) -> str:
        state = (
            "closed" if self._session.access.is_closed else counted(len(self.variants), "variant")
        )
        return f"<fitstep step: budget {_core.format_bytes(self.budget_bytes)}, {state}>"
