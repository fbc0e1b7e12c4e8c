"""The maker of variants (programs): from a preview at compile, and from new segments of calls.

compile   the segments that a preview records become variants, which are planned together
call      a segment that no earlier call had becomes one more variant in the same arena
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from ..base.ambient import ambient, under
from ..errors import CaptureError, FitstepError, user_location
from ..memory.seen_memory import forget_dead_arrays, note_holders
from ..state import Reach
from .entered import FirstImport, forget_modules
from .recorded import Stop, tensors_in
from .recordings import Previewed, Recordings
from .undo import Undo, put_back
from .variants import Binder, Recorded, Variant, lower

if TYPE_CHECKING:
    from ..memory.profile_cache import ProfileCache
    from ..memory.session import Session

_CORRECTIONS = 16  # Most previews: each may find results with other strides than expected.


class FoundTooLate(FitstepError):
    """A call measured strides or failures of an operator that its recording needed before."""


@dataclass
class Preview:
    """What a preview found: its variants are in the order of the calls."""

    variants: list[Variant]
    steady: list[int]  # Which of the variants make up the last call, the steady one, in order.
    recorded_calls: int
    grads_in_use: bool
    dropping: dict[int, torch.Tensor]  # By id: parameters whose gradients a call clears.
    between: frozenset[str]  # Custom operators between the programs.
    stop: Stop | None  # Why the first call was not recorded to its end.


class Maker:
    def __init__(
        self,
        function: Callable[..., Any],
        find_reach: Callable[..., Reach],
        session: Session,
        cache: ProfileCache,
        keep_grads: bool,
    ) -> None:
        self.function = function
        self.find_reach = find_reach
        self.session = session
        self._cache = cache
        self.keeps_grads = keep_grads
        self.tried_imports: set[str] = set()  # Modules that a preview was about to import.
        reach = find_reach()
        self._schedulers = [scheduler for _, scheduler in reach.schedulers]
        self._optimizers = [optimizer for _, optimizer in reach.optimizers]

    @property
    def cache(self) -> ProfileCache:
        """Measurements under the settings that torch has now."""
        return self._cache.under(ambient())

    def numbers(self) -> Iterator[dict[str, Any]]:
        """The dicts in which schedulers and optimizers' groups keep Python numbers, of those within
        reach at compile."""
        yield from (vars(scheduler) for scheduler in self._schedulers)
        yield from (group for one in self._optimizers for group in one.param_groups)

    def preview(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Preview:
        """Runs the function on hollow tensors, several times, and puts everything back.

        Raises CaptureError for what cannot be part of a program, and what the function raises.
        """
        has_looked = False
        for _ in range(_CORRECTIONS):
            known = self.cache.profile.corrected()
            try:
                recorded, calls, of = self._record(args, kwargs)
                arguments = tensors_in(args, kwargs)
                has_new = note_holders(self.find_reach(), arguments, recorded, self.session)
                if has_new and not has_looked:
                    has_looked = True
                    continue  # Segments end at writes to lent memory, so records again.
                found = self._bind(recorded, calls, of)
            except CaptureError:  # In the next preview this operator runs between segments.
                if self.cache.profile.corrected() == known:
                    raise
                continue
            took_over = self.cache.write()  # Then lowers again, with the other process's times.
            if self.cache.profile.corrected() == known and not took_over:
                return found
        raise CaptureError(
            "results of this step have other shapes or strides than PyTorch's meta kernels say, "
            f"and differ again after {_CORRECTIONS} previews",
            todo="please report the model",
        )

    def _record(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Recorded], int, Recordings]:
        """Records previews until one imports no module for the first time."""
        while True:
            self.cache.profile.begin_preview()
            recordings = Recordings(self._previewed(), args, kwargs)
            try:
                recorded, calls = recordings.run()
                return recorded, calls, recordings
            except FirstImport as first:
                name, undo = first.name, first.undo
            self._import(name, undo)

    def _previewed(self) -> Previewed:
        return Previewed(
            self.function, self.find_reach, self.session, self.cache.profile, self.tried_imports
        )

    def _import(self, name: str, undo: Undo) -> None:
        """Imports a module for good. Raises CaptureError if the import changes the step's state."""
        self.tried_imports.add(name)
        before = set(sys.modules)
        try:
            importlib.import_module(name)
        except (Exception, SystemExit):  # The step's own import will raise it again.
            put_back(undo)
            return
        with _hidden(set(sys.modules) - before):
            has_changed = undo.has_changed()
        if has_changed:
            put_back(undo)
            forget_modules(before)
            raise CaptureError(
                f"the step imports {name} for the first time, which changes what the step uses",
                todo=f"import {name} before compile",
            )

    def _bind(self, recorded: list[Recorded], calls: int, of: Recordings) -> Preview:
        binder = Binder(self.session, self.keeps_grads or of.was_cut)
        variants = binder.bind(recorded)
        kept: list[Variant] = []
        last = max((one.call for one in recorded), default=0)
        steady: list[int] = []
        for one, variant in zip(recorded, variants, strict=True):
            at = next((i for i, other in enumerate(kept) if _is_same(variant, other)), len(kept))
            if at == len(kept):
                with under(variant.ambient):
                    lower(variant, one, self.session, self.cache)
                kept.append(variant)
            if one.call == last:
                steady.append(at)
        in_use = binder.grads_in_use(recorded)
        return Preview(kept, steady, calls, in_use, of.dropping, of.between, of.stop)

    def take_up(self, one: Recorded) -> Variant:
        """The lowered variant of a call's new segment. Raises CaptureError, FoundTooLate."""
        known = self.cache.profile.corrected()
        lent = [t for t in one.externals if _core.is_lent(t) and not _core.is_hollow(t)]
        forget_dead_arrays(lent)
        variant = Binder(self.session, self.keeps_grads).bind([one])[0]
        try:
            lower(variant, one, self.session, self.cache)
        except CaptureError as failed:
            self._check_corrected(known, failed)
            raise
        self._check_corrected(known, None)
        return variant

    def _check_corrected(self, known: Set[str], failed: CaptureError | None) -> None:
        """Raises FoundTooLate if operators beyond `known` were corrected meanwhile."""
        if new := self.cache.profile.corrected() - known:
            names = ", ".join(sorted({signature.partition("(")[0] for signature in new}))
            raise FoundTooLate(
                f"{names} returns other strides than PyTorch's meta kernel says, or cannot be "
                "measured; fitstep found this too late for this call",
                where=user_location(),
                todo="call the step again: fitstep knows the operator now",
            ) from failed


@contextlib.contextmanager
def _hidden(modules: Set[str]) -> Iterator[None]:
    """In its body packages lack these modules as attributes, as before the import."""
    found = []
    for name in modules:
        package, _, child = name.rpartition(".")
        names = getattr(sys.modules.get(package), "__dict__", {})
        if child in names and names[child] is sys.modules.get(name):
            found.append((names, child, names.pop(child)))
    try:
        yield
    finally:
        for names, child, module in found:
            names[child] = module


def _is_same(a: Variant, b: Variant) -> bool:
    return (
        a.ambient == b.ambient
        and a.homes == b.homes
        and a.fresh == b.fresh
        and a.outputs == b.outputs
        and a.segment.is_like(b.segment)
    )
