"""A compiled step: chooses the variant, runs it, and leaves Python as plain PyTorch would."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from . import _core
from .arguments import describe_change
from .codes import choose_codes, shall_look
from .describe import describe_op
from .errors import CaptureError, GuardError, not_prepared
from .left_behind import (
    bring_back,
    leave_state,
    make_results,
    patch,
    step_failed,
    take_in_state,
)
from .planned import Planned
from .python_changes import check_flags
from .report import Measured, Report, SavedText, make_report
from .session import Session
from .shadow import HostSide
from .state.variant import VariantFacts, flattened
from .uninterrupted import interruptible, uninterrupted
from .usable import alone, check_usable
from .variants import Variant, VariantMaker, homes_of


class Step:
    """What `fitstep.compile` returns. Call it like the step function it was made from.

    Returned tensors are fresh, detached, ordinary tensors of the caller's own.
    """

    def __init__(self, maker: VariantMaker, session: Session, most_variants: int) -> None:
        self._maker = maker
        self._session = session
        self._most_variants = most_variants
        self._variants: dict[Any, list[Variant]] = {}
        self._forgotten: list[Variant] = []
        self._last: Variant | None = None
        self._began = 0.0  # When it ran last.
        self.measured: dict[int, Measured] = {}
        session.steps.add(self)
        self._facts = VariantFacts(maker.reach)
        self.example: tuple[Any, ...] = ()
        self.plain_peak_bytes = 0
        self.compile_seconds: dict[str, float] = {}

    # -- making variants ---------------------------------------------------------------------

    def _add_variants(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], *, ahead: bool, plan: Any = None
    ) -> None:
        """Captures, plans, verifies and makes ready what these arguments lead to. Raises before
        anything of the user's has changed."""
        leaves, spec = tree_flatten((args, kwargs))
        self.example = self.example or args
        began = time.perf_counter()
        capture = self._maker.capture(leaves, spec, ahead=ahead)
        self.recorded_calls = capture.recorded_calls
        self._maker.cache.write()
        captured = time.perf_counter()
        session = self._session
        first = not session.is_open
        peaks = [v.step.plain_peak_bytes() for v in capture.variants]
        self.plain_peak_bytes = max([self.plain_peak_bytes, *peaks])
        if first:
            session.set_budget(self.plain_peak_bytes, self._maker.cache)
        bottom, mark = session.bottom_bytes, session.places.mark()
        tensors = self._add_homes(capture.variants)
        new = [
            Planned.of(v.step, session.settings, plan if v is capture.variants[-1] else None)
            for v in capture.variants
        ]
        try:
            grown = session.bottom_bytes > bottom and not first
            plans = session.plan(new, replan=grown)
        except BaseException:
            session.places.back_to(mark)
            raise
        with uninterrupted():  # All tensors move into their homes, or none.
            try:
                session.open(plans, tensors)
            except BaseException:
                session.places.back_to(mark)
                raise
            self._settle(capture.variants, plans, grown)
            if capture.grads_in_use and not session.grads_in_use:
                session.grads_in_use = True
                for step in list(session.steps):
                    step._forget_variants()  # They took no notice of gradients; made when called.
            base = self._facts.key(args, kwargs)
            for variant in capture.variants:
                self._variants.setdefault(base, []).append(variant)
        planned = time.perf_counter()
        self.compile_seconds = {"capture": captured - began, "plan": planned - captured}

    def _add_homes(self, variants: list[Variant]) -> dict[str, torch.Tensor]:
        tensors: dict[str, torch.Tensor] = {}
        for variant in variants:
            for bound in homes_of(variant):
                size = int(bound.fake.untyped_storage().nbytes())
                is_beside = bound.fake.device != self._session.torch_device
                self._session.places.add(bound.name, size, may_be_below=not is_beside)
                if bound.real is not None:
                    tensors.setdefault(bound.name, bound.real)
        return tensors

    def _settle(self, variants: list[Variant], plans: list[Planned], replanned: bool) -> None:
        session = self._session
        if replanned:
            for old, new in zip(session.planned, plans, strict=False):
                old.take_over(new)
            plans = plans[len(session.planned) :]
        for variant, planned in zip(variants, plans, strict=True):
            variant.planned = planned
            session.planned.append(planned)
            planned.set_written([b.real for b in variant.written() if b.real is not None])
        session.guards.extend(variant.guards for variant in variants)

    # -- running -----------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs one training step and returns what the step function returns.

        Parameters, buffers, optimizer state, learning rate schedules and the generator change as
        plain PyTorch would have changed them, bit for bit. Returned tensors are detached and the
        caller's own. A call with other shapes, dtypes, strides, strings, flags or training modes
        makes a new program first, up to `max_variants` of them, and so may a number that Python
        computes with; other contents of tensors do not.

        `p.grad` is None afterwards, unless no optimizer in the step has used the gradient or
        `keep_grads=True` was given.

        Raises:
            GuardError: something that the programs rely on has changed; nothing has run.
            CaptureError, BudgetTooSmall: of a new program; nothing has run.
            StepFailed: the step stopped half-way; says what is unusable, if anything.
            FitstepError: the step was closed, or runs already.
        """
        check_usable(self._session)
        with uninterrupted() as may_interrupt, alone(self._session):
            return self._run(args, kwargs, may_interrupt)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any], may_interrupt: bool) -> Any:
        variant, host, runs = self._choose(args, kwargs)
        leaves = flattened(args, kwargs)[0]
        tensors = [
            source if isinstance(source, torch.Tensor) else leaves[source]
            for source in variant.sources
        ]
        assert variant.planned is not None
        core = variant.planned.variant
        looks = shall_look(self._session, variant.planned)
        began = time.perf_counter()
        try:
            todo = self._prepare(variant, leaves, runs)
            if looks:
                core.sample_codes()
            failure = core.run(variant.externals, tensors, may_interrupt)
        except BaseException:
            host.undo()
            raise
        ended = time.perf_counter()
        if failure is not None:
            host.undo()
            raise step_failed(variant, *failure)
        host.commit()
        outputs = core.take_outputs()
        if leave_state(self._session, variant, outputs, todo):
            self._accept_state()
        self._note(variant, began, ended)
        results = make_results(variant, outputs)
        if looks:
            choose_codes(self._session, variant.planned)
        return results

    def _prepare(self, variant: Variant, leaves: list[Any], runs: list[Any]) -> list[Any]:
        """Writes the numbers of this run into the program. Returns the flags to be set after it."""
        assert variant.planned is not None
        core = variant.planned.variant
        for op, number, value in variant.numbers.patches(leaves):
            core.set_number(op, number, value)
        for slots, run in zip(variant.slots, runs, strict=True):
            patch(variant, slots.update(run))
        if variant.recording.fresh or variant.recording.rebindings:
            # This run will have the present objects accepted: they must be the right ones.
            for guards in self._session.guards:
                for replaced in guards.check():
                    bring_back(replaced)
        return check_flags(variant.flags)

    def _choose(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Variant, HostSide, list[Any]]:
        """The variant for this call, and what the optimizers' shadows do in it."""
        base = self._facts.key(args, kwargs)
        leaves = flattened(args, kwargs)[0]
        for _ in range(2):
            if take_in_state(self._session, self.variants):
                self._accept_state()
            present = frozenset(id(t) for t in self._facts.leaves if t.grad is not None)
            found = [
                variant
                for variant in self._variants.get(base, [])
                if variant.numbers.accept(leaves) and variant.accepts_grads(present)
            ]
            for guards in {id(variant.guards): variant.guards for variant in found}.values():
                for replaced in guards.check():
                    bring_back(replaced)
            if found:
                self._session.check_homes()
            chosen = self._among(found)
            if chosen is not None:
                self._check_grads(chosen[0])
                return chosen
            self._make_variant(args, kwargs, base)
        raise CaptureError(
            "the step that was just captured is not the one that this call needs",
            todo="please report the model and the optimizer",
        )

    def _among(self, found: list[Variant]) -> tuple[Variant, HostSide, list[Any]] | None:
        """The variant that does what the optimizers are about to do; the host side has run."""
        tried: list[Variant] = []
        for variant in found:
            if any(variant.host.is_like(other.host) for other in tried):
                continue
            tried.append(variant)
            runs = variant.host.run()
            formulas = tuple([run.formula for run in runs])
            for candidate in found:
                if (
                    candidate.formulas == formulas
                    and candidate.host.is_like(variant.host)
                    and self._starts_here(candidate)
                ):
                    return candidate, variant.host, runs
            variant.host.undo()
        return None

    def _check_grads(self, variant: Variant) -> None:
        """Gradients that the program reads must be those that it left at home."""
        if not variant.reads_grads:
            return
        for leaf in self._facts.leaves:
            home = self._session.home_of(leaf)
            if leaf.grad is None or home is None:
                continue
            of_grad = self._session.homes.get(f"{home.name}.grad")
            if of_grad is not None and leaf.grad is not of_grad.tensor:
                raise GuardError(
                    of_grad.name,
                    of_grad.tensor,
                    leaf.grad,
                    problem=f"{of_grad.name} was replaced by another tensor between two steps",
                    todo=f"write into it in place, {of_grad.name}.copy_(new), or set it to None",
                )

    def _make_variant(self, args: tuple[Any, ...], kwargs: dict[str, Any], base: Any) -> None:
        count = sum(map(len, self._variants.values()))
        if count >= self._most_variants:
            why = "; ".join(self._differences(args, kwargs, base))
            raise GuardError(
                "the number of variants",
                count,
                count + 1,
                problem=f"this call needs variant number {count + 1} of the step: {why}",
                todo="keep shapes and flags the same from step to step, or raise max_variants=",
            )
        try:
            with interruptible():
                self._add_variants(args, kwargs, ahead=False)
        except _core.CoreError as error:
            raise not_prepared(error) from None

    def _differences(self, args: tuple[Any, ...], kwargs: dict[str, Any], base: Any) -> list[str]:
        """In words, what this call does not share with the example."""
        known = next(iter(self._variants))
        function = self._maker.function
        lines = self._facts.explain(known._replace(inputs=base.inputs), base)
        lines += describe_change(function, (self.example, {}), (args, kwargs))
        return lines or ["the optimizer does something else"]

    def _starts_here(self, variant: Variant) -> bool:
        """Whether what the program expects at home is there: state that a step has yet to make is
        not."""
        homes = self._session.homes
        return all(homes[name].tensor is not None for name in variant.recording.start)

    def _note(self, variant: Variant, began: float, ended: float) -> None:
        seconds: float | None = ended - began
        if not self._session.device.is_cpu():  # It works on behind the call: from begin to begin.
            seconds = began - self._began if self._last is variant else None
        self.measured.setdefault(id(variant), Measured()).note(seconds)
        self._last, self._began = variant, began

    def _forget_variants(self) -> None:
        """Drops all variants: the next call captures anew. To be followed by a call or close()."""
        dropped = [v.planned for found in self._variants.values() for v in found]
        session = self._session
        session.planned = [one for one in session.planned if one not in dropped]
        self._forgotten = self.variants or self._forgotten
        self._variants.clear()
        self._last = None

    # -- what the user can ask ---------------------------------------------------------------

    @property
    def variants(self) -> list[Variant]:
        """The programs of the step, in the order in which they were made: one for its first call,
        which makes optimizer state, one for later calls, more for other shapes and flags."""
        found = [variant for found in self._variants.values() for variant in found]
        return found or self._forgotten

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

    def _accept_state(self) -> None:
        """Takes the present objects within reach as those that the guards expect."""
        for guards in self._session.guards:
            guards.accept()

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
        return self._session.budget_bytes

    def report(self) -> Report:
        """Predicted against measured: peak, time, what was kept and recomputed."""
        return make_report(self, self._session)

    def check(self, steps: int = 3, *, example: Any = None) -> Any:
        """Trains a copy with plain PyTorch beside this step and compares all bits.

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
        self._session.close()

    def __repr__(self) -> str:
        state = "closed" if self._session.is_closed else f"{len(self.variants)} variants"
        return f"<fitstep step: budget {_core.format_bytes(self._session.budget_bytes)}, {state}>"
