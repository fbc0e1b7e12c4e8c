"""Variants of a step function: recorded, lowered, matched with the optimizers' shadows.

A variant is one program of the function: the first step, the steady step, another input shape. This
module makes them; `session` plans them and `step` runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from . import _core
from .capture import Bound, Capturer, Recording
from .errors import CaptureError
from .profile_cache import ProfileCache
from .session import Planned, Session
from .shadow import HostSide, OptimizerCall, ShadowOptimizer, Slots, TapeOp, match
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
    externals: list[tuple[int, int]] = field(default_factory=list)  # (storage, offset in bytes)
    sources: list[int | torch.Tensor] = field(default_factory=list)  # Argument leaf, or a tensor.
    planned: Planned | None = None


@dataclass
class Capture:
    """All variants that one capture found."""

    variants: list[Variant]
    recorded_calls: int


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
        self.grads_in_use = keep_grads
        self._is_first = True

    def capture(self, leaves: list[Any], spec: Any, *, ahead: bool) -> Capture:
        """Records, lowers and measures. `ahead`: also the states that steps will lead to.

        Raises CaptureError. Nothing of the user's is changed.
        """
        if not self._is_first:
            self.reach = self.find_reach()  # Steps have made optimizer state since.
        self._is_first = False
        for _ in range(_CORRECTIONS):
            known = self.cache.profile.correction_count()
            capture = self._capture_once(leaves, spec, ahead)
            if self.cache.profile.correction_count() == known:
                return capture
        raise CaptureError(
            "results of this step have another shape or other strides than PyTorch's fakes say, "
            "also after they were corrected",
            todo="please report the model",
        )

    def _capture_once(self, leaves: list[Any], spec: Any, ahead: bool) -> Capture:
        snapshot = Snapshot.take(self.reach)
        fake_mode = FakeTensorMode(allow_fallback_kernels=False)
        recordings: list[Recording] = []
        count = 1 + (self._count_ahead() if ahead else 0)
        _core.code_trace_begin()
        try:
            with swapped(self.reach, fake_mode) as swap:
                capturer = Capturer(swap, fake_mode, self.cache.profile, self._home_name)
                for index in range(count):
                    recording = capturer.record(self.function, leaves, spec)
                    self._check_changes(snapshot.changes())
                    recordings.append(recording)
                    recording.label = _label(recording, leaves)
                    if not recording.fresh and not recording.grads and index >= 1:
                        break
                    capturer.go_on(recording)
        finally:
            ran = _core.code_trace_end()
        in_use = self.grads_in_use or self._grads_are_read(recordings)
        self.grads_in_use = in_use
        written = self._written_or_at_home(recordings)
        for recording in recordings:
            self._settle(recording, written, in_use)
        guards = make_guards(snapshot, ran)
        variants = self._finish(recordings, guards, swap)
        return Capture(variants, sum(r.call_count for r in recordings))

    def _home_name(self, tensor: torch.Tensor) -> str | None:
        home = self.session.home_of(tensor)
        return home.name if home is not None else None

    def _count_ahead(self) -> int:
        """How many recordings after the first reach the last formula that is known to come."""
        last = 1
        for shadow in self.shadows.values():
            formulas = shadow.formulas_ahead(count=_AHEAD)
            changes = [i for i in range(1, _AHEAD) if formulas[i] != formulas[i - 1]]
            last = max(last, *changes, 1)
        return last

    def _check_changes(self, changes: list[NumberChange]) -> None:
        for change in changes:
            if change.owned_by in ("optimizer", "scheduler") or change.role == "optimizer_state":
                continue
            raise CaptureError(
                f"the step changes the Python value {change.path} from {change.old!r} to "
                f"{change.new!r}; a captured step would change it once and never again",
                todo="keep it in a tensor (a buffer), or change it outside the step",
            )

    @staticmethod
    def _grads_are_read(recordings: list[Recording]) -> bool:
        for recording in recordings:
            read = set(recording.recorder.read_storages())
            if any(b.role == "grad" and b.storage in read for b in recording.bound):
                return True
        return False

    def _written_or_at_home(self, recordings: list[Recording]) -> set[str]:
        """Names of closed-over tensors that some recording writes, or that another compiled
        function has brought home."""
        found = set()
        for recording in recordings:
            for bound in recording.bound:
                if bound.storage in recording.written or (
                    bound.real is not None and self._home_name(bound.real)
                ):
                    found.add(bound.name)
        return found

    @staticmethod
    def _settle(recording: Recording, written: set[str], in_use: bool) -> None:
        """Decides what is at home: gradients if they are in use, and `written` tensors."""
        recorder = recording.recorder
        for path, kind, fake in recording.fresh:
            if kind != "gradient" or in_use:
                recorder.adopt(fake, path, kind)
        for bound in recording.bound:
            if bound.role == "grad" and not in_use:
                recorder.forget(bound.storage)
            elif not bound.is_home and bound.name in written:
                bound.role = "buffer"
                recorder.make_persistent(bound.storage, "buffer")
        if not in_use:
            recording.fresh = [f for f in recording.fresh if f[1] != "gradient"]
            recording.bound = [b for b in recording.bound if b.role != "grad"]

    def _finish(self, recordings: list[Recording], guards: Guards, swap: Swap) -> list[Variant]:
        variants: list[Variant] = []
        for index, recording in enumerate(recordings):
            formulas, runs = self._shadow_runs(recordings[: index + 1])
            start = frozenset(b.name for b in recording.bound if b.is_home)
            if any(v.formulas == formulas and v.recording.start == start for v in variants):
                continue
            recording.start = start
            step = self.cache.lower(recording.recorder)
            step.set_name(recording.label)
            slots = [
                self._match(recording, step, number, run) for number, run in enumerate(runs)
            ]
            host = HostSide(recording.calls, self.shadows)
            variant = Variant(recording, step, host, slots, guards, swap, formulas)
            self._find_externals(variant)
            variants.append(variant)
        return variants

    def _shadow_runs(self, recordings: list[Recording]) -> tuple[tuple[Any, ...], list[Any]]:
        """What the shadows do in the last of these steps, when all are done one after another."""
        from .shadow.schedulers import SchedulerState

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
                for call in recording.calls:
                    if isinstance(call, OptimizerCall):
                        runs.append(self.shadows[call.optimizer].step())
                    else:
                        call.scheduler.step()
            finally:
                saved.restore()
        return tuple(run.formula for run in runs), runs

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


def _label(recording: Recording, leaves: list[Any]) -> str:
    what = "first step" if any(f[1] == "optimizer_state" for f in recording.fresh) else "step"
    shapes = [tuple(leaf.shape) for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return f"{what} {shapes}"


def homes_of(variant: Variant) -> list[Bound]:
    """What has to be at home for a variant, in the order of the reach."""
    found = [bound for bound in variant.recording.bound if bound.is_home]
    for path, kind, fake in variant.recording.fresh:
        found.append(Bound(path, "grad" if kind == "gradient" else kind, fake, None))
    return found
