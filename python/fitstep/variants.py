"""Variants of a step function: recorded, lowered, matched with the optimizers' shadows.

A variant is one program of the function: the first step, the steady step, another input shape. This
module makes them; `session` plans them and `step` runs them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from . import _core
from .capture import Capturer
from .errors import CaptureError
from .host_numbers import HostNumbers, host_numbers, perturbed
from .planned import Planned
from .profile_cache import ProfileCache
from .python_changes import PythonChanges
from .recorded_state import check_given, leaves_grads, reads_grads, settle, uses, written_or_at_home
from .recording import Bound, Recording
from .session import Session
from .shadow import HostSide, OptimizerCall, SchedulerCall, ShadowOptimizer, Slots, TapeOp, match
from .shadow.schedulers import SchedulerState
from .state import Reach, Swap, swapped
from .state.guards import Guards, make_guards
from .state.snapshot import NumberChange, Snapshot

_AHEAD = 8  # Steps for which optimizers' formulas are looked up at compile.
_CORRECTIONS = 16  # Captures again at most, when fakes had another geometry than real results.


@dataclass(eq=False)
class Variant:
    """One program of a step function, and what happens in Python around it."""

    recording: Recording
    step: Any  # _core.StepProgram
    host: HostSide
    slots: list[Slots]
    guards: Guards
    swap: Swap
    formulas: tuple[Any, ...]
    reads_grads: bool  # Whether it matters which gradients are there when it starts.
    numbers: HostNumbers
    flags: list[NumberChange]  # Set by the first call, here too.
    externals: list[tuple[int, int]] = field(default_factory=list)  # (storage, offset in bytes)
    sources: list[int | torch.Tensor] = field(default_factory=list)  # Argument leaf, or a tensor.
    planned: Planned | None = None

    def written(self) -> list[Bound]:
        """What is at home and written by the program."""
        written = self.recording.written
        return [b for b in self.recording.bound if b.is_home and b.storage in written]

    def accepts_grads(self, present: frozenset[int]) -> bool:
        """Whether the program is right for a step that starts with these gradients there."""
        recorded = self.recording.with_grads
        return present == recorded if self.reads_grads else present <= recorded


@dataclass
class Capture:
    """All variants that one capture found."""

    variants: list[Variant]
    recorded_calls: int
    grads_in_use: bool


class VariantMaker:
    """Captures one step function. Holds what does not change from capture to capture."""

    def __init__(
        self,
        function: Callable[..., Any],
        find_reach: Callable[[], Reach],
        session: Session,
        cache: ProfileCache,
        keep_grads: bool,
    ) -> None:
        self.function = function
        self.find_reach = find_reach
        self.reach = find_reach()
        self.session = session
        self.cache = cache
        self.shadows = {o: ShadowOptimizer(o) for _, o in self.reach.optimizers}
        self.keeps_grads = keep_grads
        self._is_first = True

    def capture(self, leaves: list[Any], spec: Any, *, ahead: bool) -> Capture:
        """Records, lowers and measures. `ahead`: also the states that steps will lead to.

        Raises CaptureError. Nothing of the user's is changed.
        """
        if not self._is_first:
            self.reach = self.find_reach()  # Steps have made optimizer state since.
        self._is_first = False
        found = self._capture_corrected(leaves, spec, ahead, give_grads=False)
        if ahead and found.grads_in_use and self._misses_grads():
            # An earlier function leaves gradients at home: what if they are there?
            more = self._capture_corrected(leaves, spec, ahead, give_grads=True)
            found.variants += [v for v in more.variants if not _is_among(v, found.variants)]
            found.recorded_calls += more.recorded_calls
        return found

    def _capture_corrected(
        self, leaves: list[Any], spec: Any, ahead: bool, *, give_grads: bool
    ) -> Capture:
        for _ in range(_CORRECTIONS):
            known = self.cache.profile.correction_count()
            capture = self._capture_once(leaves, spec, ahead, give_grads)
            if self.cache.profile.correction_count() == known:
                return capture
        raise CaptureError(
            "results of this step have another shape or other strides than PyTorch's fakes say, "
            "also after they were corrected",
            todo="please report the model",
        )

    def _misses_grads(self) -> bool:
        session = self.session
        for place in self.reach.leaves():
            home = session.home_of(place.tensor)
            if home is None or place.tensor.grad is not None:
                continue
            if f"{home.name}.grad" in session.homes:
                return True
        return False

    def _capture_once(self, leaves: list[Any], spec: Any, ahead: bool, give_grads: bool) -> Capture:
        self.cache.profile.begin_capture()
        count = 1 + (self._count_ahead() if ahead else 0)
        snapshot = Snapshot.take(self.reach)
        changes = PythonChanges(snapshot)
        _core.code_trace_begin()
        try:
            recordings, swap = self._record(leaves, spec, count, give_grads, changes, snapshot)
        finally:
            ran = _core.code_trace_end()
        others = self._record_again(leaves, spec, len(recordings), give_grads)
        in_use = self.session.grads_in_use or self.keeps_grads
        in_use = in_use or any(reads_grads(r) or leaves_grads(r) for r in recordings)
        written = written_or_at_home(recordings, self.session)
        for recording in recordings + others:
            settle(recording, written, in_use)
        guards = make_guards(
            snapshot,
            ran,
            exempt=changes.flag_paths,
            optimizers=[o for _, o in self.reach.optimizers if uses(recordings, o)],
        )
        guards.grads_count = in_use
        variants = self._finish(recordings, guards, swap, changes)
        for variant in variants:
            variant.reads_grads = in_use
            i = next(k for k, r in enumerate(recordings) if r is variant.recording)
            other = self.cache.lower(others[i].recorder, self.session) if others else None
            variant.numbers = host_numbers(
                variant.step, other, leaves, (recordings[i], others[i] if others else None)
            )
        return Capture(variants, sum(r.call_count for r in recordings), in_use)

    def _record(
        self,
        leaves: list[Any],
        spec: Any,
        count: int,
        give_grads: bool,
        changes: PythonChanges,
        snapshot: Snapshot,
    ) -> tuple[list[Recording], Swap]:
        recordings: list[Recording] = []
        of_groups: list[NumberChange] = []
        fake_mode = FakeTensorMode(allow_fallback_kernels=False)
        with swapped(self.reach, fake_mode) as swap:
            capturer = Capturer(swap, fake_mode, self.cache.profile, self.session)
            while len(recordings) < count:
                if give_grads:
                    capturer.give_grads()
                recording = capturer.record(self.function, leaves, spec)
                changes.look(len(recordings), swap.drawn(), recording.literals)
                if not any(isinstance(call, SchedulerCall) for call in recording.calls):
                    of_groups += [c for c in snapshot.changes() if c.role == "group"]
                recordings.append(recording)
                check_given(recordings, swap.final())
                recording.label = _label(recording, leaves)
                if recording.given:
                    count = max(count, 2)  # Does the next one read what this one gave away?
                if changes.want_more(len(recordings)):
                    count = max(count, len(recordings) + 1)
                elif not recording.fresh and not recording.grads and len(recordings) >= 2:
                    break
                capturer.go_on(recording)
        self._check_groups(of_groups)
        return recordings, swap

    def _check_groups(self, changes: list[NumberChange]) -> None:
        """Raises CaptureError if the step itself, not the optimizer, set a number of a group."""
        for change in changes:
            for optimizer, shadow in self.shadows.items():
                if not any(change.node.container is group for group in optimizer.param_groups):
                    continue
                if change.key not in shadow.sets_itself():
                    raise CaptureError(
                        f"the step sets {change.path} from {change.old!r} to {change.new!r}, and "
                        "a captured step would not",
                        todo="set it before the call of the compiled step, which takes it from "
                        "there each time",
                    )

    def _record_again(
        self, leaves: list[Any], spec: Any, count: int, give_grads: bool
    ) -> list[Recording]:
        """The same with other numbers as arguments, to find their places; none without numbers."""
        changed = perturbed(leaves)
        if changed is None:
            return []
        try:
            snapshot = Snapshot.take(self.reach)
            changes = PythonChanges(snapshot)
            return self._record(changed, spec, count, give_grads, changes, snapshot)[0]
        except Exception:
            return []  # Not every number will do. What was recorded is one variant among others.

    def _count_ahead(self) -> int:
        """How many recordings after the first reach the last formula that is known to come."""
        last = 1
        for shadow in self.shadows.values():
            formulas = shadow.formulas_ahead(count=_AHEAD)
            changes = [i for i in range(1, _AHEAD) if formulas[i] != formulas[i - 1]]
            last = max(last, *changes, 1)
        return last

    def _finish(
        self, recordings: list[Recording], guards: Guards, swap: Swap, changes: PythonChanges
    ) -> list[Variant]:
        variants: list[Variant] = []
        for index, recording in enumerate(recordings):
            formulas, runs = self._shadow_runs(recordings[: index + 1])
            recording.start = frozenset(b.name for b in recording.bound if b.is_home)
            is_known = any(_is_same(v, formulas, recording) for v in variants)
            for variant in variants:
                if _is_same(variant, formulas, recording):  # Gradients that count are in `start`.
                    variant.recording.with_grads |= recording.with_grads
            if is_known and not (changes.flags and index == 1):
                continue
            step = self.cache.lower(recording.recorder, self.session)
            if changes.flags and index == 1:
                changes.compare(
                    (variants[0].step, _update_ops(variants[0].step, recordings[0])),
                    (step, _update_ops(step, recording)),
                )
                if is_known:
                    continue
            step.set_name(recording.label)
            slots = [self._match(recording, step, number, run) for number, run in enumerate(runs)]
            host = HostSide(recording.calls, self.shadows)
            variant = Variant(
                recording,
                step,
                host,
                slots,
                guards,
                swap,
                formulas,
                False,
                HostNumbers(),
                changes.flags,
            )
            self._find_externals(variant)
            guards.keep(source for source in variant.sources if isinstance(source, torch.Tensor))
            variants.append(variant)
        return variants

    def _shadow_runs(self, recordings: list[Recording]) -> tuple[tuple[Any, ...], list[Any]]:
        """What the shadows do in the last of these steps, when all are done one after another."""
        masks: dict[Any, list[Any]] = {}
        for recording in recordings:
            for call in recording.calls:
                if isinstance(call, OptimizerCall):
                    masks.setdefault(call.optimizer, []).append(call.mask)
        for optimizer, of_optimizer in masks.items():
            self.shadows[optimizer].begin(of_optimizer)
        runs: list[Any] = []
        for recording in recordings:
            runs = []
            saved = SchedulerState([s for _, s in self.reach.schedulers])
            try:
                with warnings.catch_warnings():  # Of schedulers, as no optimizer steps for real.
                    warnings.simplefilter("ignore")
                    for call in recording.calls:
                        if isinstance(call, OptimizerCall):
                            runs.append(self.shadows[call.optimizer].step())
                        else:
                            call.scheduler.step()
            finally:
                saved.restore()
        return tuple([run.formula for run in runs]), runs

    def _match(self, recording: Recording, step: Any, number: int, run: Any) -> Slots:
        calls = [c for c in recording.calls if isinstance(c, OptimizerCall)]
        optimizer = calls[number].optimizer
        ops = [TapeOp(*op) for op in step.update_ops(number)]
        storages = {
            parameter: {step.storage_of_tape(s) for s in owned if s >= 0} - {-1}
            for parameter, owned in recording.owned[number].items()
        }
        literals = {}
        for op in ops:
            for storage in op.inputs:
                literal = step.literal(storage)
                if literal is not None:
                    literals[storage] = literal.numpy().tobytes()
        return match(optimizer, self.shadows[optimizer], run, ops, storages, literals)

    def _find_externals(self, variant: Variant) -> None:
        step, recording = variant.step, variant.recording
        for leaf, number, offset in recording.inputs:
            storage = step.storage_of_tape(number)
            if storage >= 0:
                variant.externals.append((storage, offset))
                variant.sources.append(leaf)
        for bound in recording.bound:
            storage = step.storage_of_tape(bound.storage)
            if bound.is_home or storage < 0 or bound.real is None:
                continue
            offset = int(bound.fake.storage_offset()) * bound.fake.element_size()
            variant.externals.append((storage, offset))
            variant.sources.append(bound.real)


def _is_same(variant: Variant, formulas: tuple[Any, ...], recording: Recording) -> bool:
    return variant.formulas == formulas and variant.recording.start == recording.start


def _is_among(variant: Variant, others: list[Variant]) -> bool:
    return any(_is_same(other, variant.formulas, variant.recording) for other in others)


def _update_ops(step: Any, recording: Recording) -> set[int]:
    """The ops that optimizers' steps recorded."""
    count = sum(isinstance(call, OptimizerCall) for call in recording.calls)
    return {op[0] for number in range(count) for op in step.update_ops(number)}


def _label(recording: Recording, leaves: list[Any]) -> str:
    is_first = any(kind == "optimizer_state" for _, kind, *_ in recording.fresh)
    what = "first step" if is_first else "steady step"
    shapes = [tuple(leaf.shape) for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return f"{what} {shapes}"


def homes_of(variant: Variant) -> list[Bound]:
    """What has to be at home for a variant, in the order of the reach."""
    found = [bound for bound in variant.recording.bound if bound.is_home]
    for path, kind, fake in variant.recording.fresh:
        found.append(Bound(path, "grad" if kind == "gradient" else kind, fake, None))
    return found
