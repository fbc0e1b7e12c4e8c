"""A compiled step: chooses the variant, runs it, and leaves Python as plain PyTorch would."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from . import _core
from .errors import CaptureError, FitstepError, GuardError, StepFailed
from .report import Report, make_report
from .session import Planned, Session
from .variants import Variant, VariantMaker, homes_of

_MOST_VARIANTS = 8


@dataclass
class Measured:
    """What the runs of one variant showed."""

    runs: int = 0
    seconds: list[float] = field(default_factory=list)  # Of the last 1,000 runs.
    counters: dict[str, int] = field(default_factory=dict)


class SavedText:
    """A program or a plan, for saving it to a file."""

    def __init__(self, what: str, text: Callable[[], str]) -> None:
        self._what = what
        self._text = text

    def save(self, path: str | Path) -> None:
        """Writes the text form; `fitstep show` and `fitstep verify` read it without PyTorch."""
        Path(path).write_text(self._text(), encoding="utf-8")

    def __str__(self) -> str:
        return self._text()

    def __repr__(self) -> str:
        return f"<fitstep {self._what}>"


class Step:
    """What `fitstep.compile` returns. Call it like the step function it was made from.

    Returned tensors are fresh, detached, ordinary tensors of the caller's own.
    """

    def __init__(self, maker: VariantMaker, session: Session, most_variants: int) -> None:
        self._maker = maker
        self._session = session
        self._most_variants = most_variants
        self._variants: dict[Any, list[Variant]] = {}
        self._closed = False
        self._running = False
        self._last: Variant | None = None
        self.measured: dict[int, Measured] = {}
        from .state.variant import VariantFacts

        self._facts = VariantFacts(maker.reach)
        self.example: tuple[Any, ...] = ()
        self.plain_peak_bytes = 0
        self.compile_seconds: dict[str, float] = {}

    # -- making variants ---------------------------------------------------------------------

    def add_variants(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], *, ahead: bool, plan: Any = None
    ) -> None:
        """Captures, plans, verifies and makes ready what these arguments lead to.

        Raises before anything of the user's has changed.
        """
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
            session.set_budget(self.plain_peak_bytes)
        bottom = session.bottom_bytes
        tensors = self._add_homes(capture.variants)
        new = [
            Planned(
                v.step,
                external_bytes=v.step.external_bytes(),
                policy=session.settings.policy,
                given_plan=plan if v is capture.variants[-1] else None,
            )
            for v in capture.variants
        ]
        try:
            grown = session.bottom_bytes > bottom and not first
            plans = session.plan(new, replan=grown)
            session.open(plans, tensors)
        except BaseException:
            session.remove_homes_from(bottom)
            raise
        self._settle(capture.variants, plans, grown)
        base = self._key(args, kwargs)
        for variant in capture.variants:
            self._variants.setdefault(base, []).append(variant)
        self.compile_seconds = {
            "capture": captured - began,
            "plan": time.perf_counter() - captured,
        }

    def _add_homes(self, variants: list[Variant]) -> dict[str, torch.Tensor]:
        tensors: dict[str, torch.Tensor] = {}
        for variant in variants:
            for bound in homes_of(variant):
                size = int(bound.fake.untyped_storage().nbytes())
                self._session.add_home(bound.name, size)
                if bound.real is not None:
                    tensors.setdefault(bound.name, bound.real)
        return tensors

    def _settle(self, variants: list[Variant], plans: list[Planned], replanned: bool) -> None:
        session = self._session
        if replanned:
            for old, new in zip(session.planned, plans, strict=False):
                old.plan, old.variant = new.plan, new.variant
            plans = plans[len(session.planned) :]
        for variant, planned in zip(variants, plans, strict=True):
            variant.planned = planned
            session.planned.append(planned)
            written = [
                bound.real
                for bound in variant.recording.bound
                if bound.is_home and bound.real is not None and bound.storage in variant.recording.written
            ]
            planned.variant.set_written(written)
        session.guards.extend(variant.guards for variant in variants)

    # -- running -----------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._closed:
            raise FitstepError(
                "this compiled step was closed", todo="compile the step function again"
            )
        if self._running:
            raise FitstepError(
                "this compiled step is running already (another thread, or the step itself)",
                todo="run one step at a time",
            )
        self._running = True
        try:
            return self._run(args, kwargs)
        finally:
            self._running = False

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        variant, runs = self._choose(args, kwargs)
        leaves = tree_flatten((args, kwargs))[0]
        tensors = [
            source if isinstance(source, torch.Tensor) else leaves[source]
            for source in variant.sources
        ]
        assert variant.planned is not None
        core = variant.planned.variant
        began = time.perf_counter()
        try:
            for slots, run in zip(variant.slots, runs, strict=True):
                self._patch(variant, slots.update(run))
            failure = core.run(variant.externals, tensors)
        except BaseException:
            variant.host.undo()
            raise
        seconds = time.perf_counter() - began
        if failure is not None:
            self._fail(variant, *failure)
        variant.host.commit()
        outputs = core.take_outputs()
        self._bind_state(variant, outputs)
        self._note(variant, seconds)
        return self._results(variant, outputs)

    def _choose(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Variant, list[Any]]:
        """The variant for this call, and what the optimizers' shadows do in it."""
        base = self._key(args, kwargs)
        for _ in range(2):
            found = self._variants.get(base, [])
            for variant in found:
                for replaced in variant.guards.check():
                    self._bring_back(replaced)
                runs = variant.host.run()
                formulas = tuple(run.formula for run in runs)
                for candidate in found:
                    if candidate.formulas == formulas and self._starts_here(candidate):
                        return candidate, runs
                variant.host.undo()
                break
            self._make_variant(args, kwargs, base)
        raise CaptureError(
            "the step that was just captured is not the one that this call needs",
            todo="please report the model and the optimizer",
        )

    def _make_variant(self, args: tuple[Any, ...], kwargs: dict[str, Any], base: Any) -> None:
        count = sum(map(len, self._variants.values()))
        if count >= self._most_variants:
            known = next(iter(self._variants))
            raise GuardError(
                "the number of variants",
                count,
                count + 1,
                problem=f"this call needs variant number {count + 1} of the step: "
                + "; ".join(self._facts.explain(known[0], base[0]) or ["the optimizer changed"]),
                todo="keep shapes and flags the same from step to step, or raise max_variants=",
            )
        self.add_variants(args, kwargs, ahead=False)

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        key = self._facts.key(args, kwargs)
        if not self._maker.grads_in_use:
            key = key._replace(grads=())
        # The optimizer's state selects among the variants of a key, by formula.
        key = key._replace(state=())
        numbers = tuple(
            leaf
            for leaf in tree_flatten((args, kwargs))[0]
            if isinstance(leaf, int | float) and not isinstance(leaf, bool)
        )
        return key, numbers

    def _starts_here(self, variant: Variant) -> bool:
        """Whether what the program expects at home is there: state that a step has yet to make is
        not."""
        homes = self._session.homes
        return all(homes[name].tensor is not None for name in variant.recording.start)

    def _bring_back(self, replaced: Any) -> None:
        """State that was replaced by tensors alike (load_state_dict): copied into its home."""
        with torch.no_grad():
            replaced.old.copy_(replaced.new)
        replaced.container[replaced.key] = replaced.old

    @staticmethod
    def _patch(variant: Variant, patches: Any) -> None:
        assert variant.planned is not None
        core = variant.planned.variant
        for patch in patches.numbers:
            core.set_number(patch.op, patch.number, patch.value)
        for patch in patches.literals:
            literal = variant.step.literal(patch.storage)
            flat = literal.view(torch.uint8).flatten() if literal.dim() else literal.reshape(1).view(torch.uint8)
            flat.copy_(torch.frombuffer(bytearray(patch.content), dtype=torch.uint8))

    def _fail(self, variant: Variant, message: str, is_untouched: bool) -> None:
        variant.host.undo()
        if is_untouched:
            raise StepFailed(
                message,
                todo="nothing was changed: parameters, buffers and optimizer state are as before "
                "the step",
            )
        written = [
            bound.name
            for bound in variant.recording.bound
            if bound.is_home and bound.storage in variant.recording.written
        ]
        raise StepFailed(
            message,
            unusable=written,
            todo="load a checkpoint into the model and the optimizer before going on",
        )

    def _bind_state(self, variant: Variant, outputs: list[torch.Tensor]) -> None:
        """What the step function would have left in Python."""
        recording = variant.recording
        made: dict[int, torch.Tensor] = {}
        for name, kind, fake in recording.fresh:
            home = self._session.homes[name]
            tensor = home.tensor
            if tensor is None or not self._session.is_home(tensor, home):
                tensor = self._session.make_tensor(home, fake)
            made[id(fake)] = tensor
            if kind == "gradient":
                recording.grad_owners[name].grad = tensor
        if recording.rebindings:
            for fake, index in recording.given:
                made[id(fake)] = outputs[index]
            variant.swap.apply(recording.rebindings, lambda fake: made.get(id(fake)))
        if not self._maker.grads_in_use:
            for real in recording.grads:
                real.grad = None
        if recording.fresh or recording.rebindings or recording.grads:
            self.accept_state()

    def _results(self, variant: Variant, outputs: list[torch.Tensor]) -> Any:
        leaves = []
        for result in variant.recording.results:
            if result.index < 0:
                leaves.append(result.constant)
            elif result.as_number:
                leaves.append(outputs[result.index].item())
            else:
                leaves.append(outputs[result.index])
        return tree_unflatten(leaves, variant.recording.spec)

    def _note(self, variant: Variant, seconds: float) -> None:
        measured = self.measured.setdefault(id(variant), Measured())
        measured.runs += 1
        measured.seconds.append(seconds)
        del measured.seconds[:-1000]
        self._last = variant

    # -- what the user can ask ---------------------------------------------------------------

    @property
    def variants(self) -> list[Variant]:
        """All variants, in the order in which they were made."""
        return [variant for found in self._variants.values() for variant in found]

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

    def find_reach(self) -> Any:
        """All that the step function can reach, as it is now."""
        return self._maker.find_reach()

    def accept_state(self) -> None:
        """Takes the present objects within reach as those that the guards expect."""
        for guards in self._session.guards:
            guards.accept()

    @property
    def unrepeatable(self) -> list[str]:
        """Operators of the step that do not repeat their own bits from run to run."""
        return list(self._maker.cache.profile.unrepeatable())

    @property
    def budget_bytes(self) -> int:
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
        """Moves everything back to ordinary memory. The model stays usable; the step does not.

        Closes all compiled steps that share this step's arena.
        """
        if not self._closed:
            self._closed = True
            self._session.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self.variants)} variants"
        return (
            f"<fitstep step: budget {_core.format_bytes(self._session.budget_bytes)}, {state}>"
        )
