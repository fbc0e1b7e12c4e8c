"""One call of a compiled step: the function runs, then each recorded segment runs by its plan.

function     forward, backward, .item() ............ optimizer.step(), return
segments     [ recorded ──> run: .item() can read ]  [ recorded ──> run ]
Python       hollow tensors (without memory) that somebody holds get their memory after the run
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from ..base.uninterrupted import RUN_PROGRAMS
from ..errors import (
    NOTHING_CHANGED,
    AuditError,
    CaptureError,
    FitstepError,
    StepFailed,
    changed_by,
    not_finished,
    not_prepared,
    overwritten,
    step_failed,
)
from ..follow.dropped import drop, is_like
from ..follow.maker import FoundTooLate
from ..follow.recorded import arguments_in, label_of, recorded_of
from ..follow.results import detached
from ..follow.variants import Recorded, Variant, lower, roles_of, storage_id
from ..memory.codes import choose_codes, shall_look
from ..memory.seen_memory import ArrayIsAlive, forget_dead_arrays
from .audits import Audits, Truth, audited

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..follow.following import Ended, Following
    from ..memory.planned import Planned
    from ..state import Reach
    from .programs import Programs


class Call:
    """REQUIRES: nobody else uses the session's arena meanwhile."""

    def __init__(
        self,
        programs: Programs,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        may_interrupt: bool,
        audits: Audits | None,
    ) -> None:
        self._programs = programs
        self._session, self._maker = programs.session, programs.maker
        self._args, self._kwargs = args, kwargs
        self._may_interrupt = may_interrupt
        self._audits = audits  # None if this call is not audited.
        self._part = 0  # Number of the present segment.
        self._ran: list[Any] = []  # Programs of this call that ran to their end.
        self._looked: list[tuple[Planned, Any]] = []  # (planned, core variant) that sampled codes.
        self._has_failed = False  # A segment could not run.
        self._has_raised = False  # The user's function raised.
        self.is_left_out = False  # The audit could not compare some segment.
        self._note_numbers()

    def run(self, following: Following) -> Any:
        """Runs the call, and returns what the function returns, with detached tensors."""
        self._put_ghosts()
        forget_dead_arrays(self._session.arena.lent())
        mode = _core.FollowMode.CALL if self._audits is None else _core.FollowMode.AUDIT
        with following.listen(self._programs.known, mode, may_add=self._programs.has_room):
            try:
                result = self._maker.function(*self._args, **self._kwargs)
            except BaseException as error:
                self._finish_after(following, error)
                raise
            following.check_faults()
            if following.error is not None:  # User code may have caught it.
                self._finish_after(following, following.error)
                raise following.error
            result = detached(result)
            self._drop_grads(following)
            self.end_segment(following)
        following.core.forget_writes()
        self._take_ghosts()
        for planned, core in self._looked:
            choose_codes(self._session, planned, core)
        return result

    def _note_numbers(self) -> None:
        """Saves schedules' and groups' numbers, which a step that fails after this restores."""
        self._numbers = [(of, dict(of)) for of in self._maker.numbers()]

    # -- segments ----------------------------------------------------------------------------

    def end_segment(self, following: Following) -> None:
        """Runs what is recorded, and gives hollow tensors their memory."""
        with _core.NotFollowed():  # Operators that this method calls are not the step's.
            self._end_segment(following)

    def _end_segment(self, following: Following) -> None:
        ended = following.end_segment()
        segment, externals, survivors = ended.segment, ended.externals, ended.survivors
        if segment is None:
            return
        following.check_faults()
        if ended.overwritten is not None:
            self._abandon(following, survivors)
            raise self._overwritten(ended.overwritten)
        if following.was_touched and following.error is not None:
            self._abandon(following, survivors)
            raise following.error
        targets = [t if h is None else h for t, h in zip(externals, ended.held, strict=True)]
        try:
            variant = self._variant(ended)
            inputs = [targets[k] for k in variant.sources]
        except BaseException as error:
            if self._audits is not None and isinstance(error, FoundTooLate):
                self._keep_plain(following)  # The next call uses the correction.
                return
            if self._audits is not None and self._has_raised:  # Plain PyTorch's results stay.
                raise
            if self._audits is not None:  # Undoes what plain PyTorch did in this segment.
                Truth(targets, ended.starts, ended.drawn).to_start()
            self._abandon(following, survivors)
            if self._ran and isinstance(error, FitstepError):
                todo = None if error.todo == NOTHING_CHANGED else error.todo
                todo = "later calls know the operator" if isinstance(error, FoundTooLate) else todo
                error.say_what_stays(changed_by(self._ran), todo)
            raise
        if ended.has_raised:  # In an audit a kernel raised: no program repeats half a write.
            self._keep_plain(following)
            return
        self._part += 1

        def run() -> None:
            for stand_in, generator in ended.generators:
                _core.set_generator_state(stand_in, _core.generator_state(generator))
            self._execute(following, variant, inputs, survivors)
            for stand_in, generator in ended.generators:
                _core.set_generator_state(generator, _core.generator_state(stand_in))

        if self._audits is not None:
            self._audit(variant, Truth(targets, ended.starts, ended.drawn), survivors, run)
            return
        for generator, before, _ in ended.seeded:
            _core.set_generator_state(generator, before)
        run()
        for generator, _, after in ended.seeded:
            _core.set_generator_state(generator, after)
        for tensor, copied in ended.lent_writes:
            _core.copy_over(tensor, copied)
        self._fill(variant, survivors)

    def _keep_plain(self, following: Following) -> None:
        """Keeps plain PyTorch's results of this segment; the next call is audited instead."""
        assert self._audits is not None
        self._audits.has_new = self.is_left_out = True
        self._part += 1
        following.core.forget_writes()
        self._note_numbers()

    def _variant(self, ended: Ended) -> Variant:
        """The variant that runs the segment, with all tensors in their homes."""
        try:
            if ended.is_new:
                variant = self._programs.take_up(self._recorded(ended))
            else:
                variant = self._with_numbers(self._programs.variant_of(ended.segment), ended)
            return self._where_tensors_are(variant, ended)
        except _core.CoreError as error:
            raise not_prepared(error) from None

    def _reach(self) -> Reach:
        return self._maker.find_reach((*self._args, *self._kwargs.values()))

    def _recorded(self, ended: Ended) -> Recorded:
        roles = roles_of(self._reach(), self._session)
        one = recorded_of(ended, arguments_in(self._args, self._kwargs), roles)
        one.part = self._part
        one.label = label_of(one, self._args, self._kwargs)
        return one

    def _overwritten(self, tensor: torch.Tensor) -> FitstepError:
        roles = roles_of(self._reach(), self._session)
        return overwritten(roles.get(storage_id(tensor), ("", "a parameter or buffer"))[1])

    def _with_numbers(self, variant: Variant, ended: Ended) -> Variant:
        """The variant with the numbers of this call in its program."""
        segment, changed = ended.segment, ended.changed
        if not changed:
            return variant
        if segment.take(changed, ended.externals):
            assert variant.planned is not None
            variant.planned.variant.set_numbers(changed)
            return variant
        # The segment now treats these numbers as changing: no form of an op may rely on them. The
        # old program relied on them, so it is forgotten, even if no new one can be planned.
        self._programs.forget(variant)
        again = Variant(
            segment,
            None,
            variant.label,
            homes=variant.homes,
            fresh=variant.fresh,
            outputs=variant.outputs,
            sizes=variant.sizes,
            ambient=variant.ambient,
        )
        one = self._recorded(ended)
        lower(again, one, self._session, self._maker.cache)
        return self._programs.add_in_call(again, one)

    def _execute(
        self,
        following: Following,
        variant: Variant,
        inputs: list[torch.Tensor],
        survivors: list[tuple[int, torch.Tensor]],
    ) -> None:
        assert variant.planned is not None
        core = variant.planned.variant
        if shall_look(self._session, variant.planned):
            core.sample_codes()
            self._looked.append((variant.planned, core))
        began = time.perf_counter()
        following.is_running = True
        try:
            failure = core.run(variant.externals, inputs, self._may_interrupt)
        finally:
            following.is_running = False
        if failure is not None:
            self._abandon(following, survivors)
            message, written = failure
            raise step_failed(self._session.homes, message, written, self._ran)
        self._ran.append(core)
        following.core.forget_writes()  # A later failure does not undo this segment.
        self._note_numbers()
        seconds = time.perf_counter() - began
        self._programs.note(variant, seconds)
        if self._audits is not None:
            self._audits.seconds -= seconds

    def _where_tensors_are(self, variant: Variant, ended: Ended) -> Variant:
        """Brings the variant's tensors home. If one of them must stay where it is, because a numpy
        array shows it, returns a new variant for it."""
        try:
            self._bring_home(variant, ended.externals)
        except ArrayIsAlive:
            if ended.is_new:
                raise
            self._programs.forget(variant)
            one = self._recorded(ended)
            variant = self._programs.add_in_call(self._maker.take_up(one), one)
            self._bring_home(variant, ended.externals)
        return variant

    def _bring_home(self, variant: Variant, externals: list[torch.Tensor]) -> None:
        """Moves tensors with which user code replaced others into the homes, and the others out."""
        arena = self._session.arena
        for name in variant.fresh.values():
            arena.leave_home(arena.homes[name])
        arena.bring_home([(arena.homes[name], externals[at]) for at, name in variant.homes])

    def _audit(
        self,
        variant: Variant,
        truth: Truth,
        survivors: list[tuple[int, torch.Tensor]],
        run: Callable[[], None],
    ) -> None:
        """Runs the program from the same start as plain PyTorch, and compares the results."""
        assert self._audits is not None and variant.planned is not None
        audited(truth, run)
        is_repeatable = not variant.step.unrepeatable()
        try:
            outputs = variant.planned.variant.take_outputs()
            made = []
            for number, tensor in survivors:
                if (name := variant.fresh.get(number)) is None:
                    ours = outputs[variant.outputs[number]]
                else:
                    ours = self._session.arena.content_of(self._session.homes[name], tensor)
                made.append((number, tensor, ours))
            if is_repeatable:
                self._audits.compared_tensors += truth.compare(variant, made)
        finally:
            truth.to_end()
        for number, tensor in survivors:
            if number in variant.fresh:
                ours = next(mine for n, _, mine in made if n == number)
                if not is_repeatable:
                    ours.copy_(tensor)
                self._session.arena.take_over(self._session.homes[variant.fresh[number]], tensor)

    def _fill(self, variant: Variant, survivors: list[tuple[int, torch.Tensor]]) -> None:
        assert variant.planned is not None
        outputs = variant.planned.variant.take_outputs()
        for number, tensor in survivors:
            if (name := variant.fresh.get(number)) is not None:
                self._session.arena.take_over(self._session.homes[name], tensor)
            else:
                _core.fill_hollow(tensor, outputs[variant.outputs[number]])

    # -- gradients ---------------------------------------------------------------------------

    def _drop_grads(self, following: Following) -> None:
        """Clears gradients that an optimizer of the step used, unless somebody reads them."""
        if self._session.grads_in_use:
            return
        ghosts = self._session.ghosts
        for optimizer in following.stepped:
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is None or p.grad.layout is not torch.strided:
                        continue
                    ghost = ghosts[id(p)][1] if id(p) in ghosts else None
                    if ghost is None or not is_like(ghost, p):
                        ghosts[id(p)] = (p, _core.make_ghost(p))
                    drop(p)

    def _put_ghosts(self) -> None:
        """Puts tensors without memory (ghosts) in the place of gradients that an earlier step
        dropped, because plain PyTorch would still have them. If a step clears them, nothing is
        lost; if it reads them, fitstep notices."""
        if self._session.grads_in_use:
            self._session.ghosts = {}
        for p, ghost in self._session.ghosts.values():
            if p.grad is None and is_like(ghost, p):
                p.grad = ghost

    def _take_ghosts(self) -> None:
        for p, ghost in self._session.ghosts.values():
            if p.grad is ghost:
                drop(p)

    # -- errors ------------------------------------------------------------------------------

    def _finish_after(self, following: Following, error: BaseException) -> None:
        """After the function raised: runs what it had called before, as plain PyTorch would have.
        If that cannot run, undoes the segment and gives hollow tensors memory."""
        self._has_raised = True
        try:
            if self._has_failed:
                self._abandon(following, following.core.end_segment()[4])
            else:
                self.end_segment(following)
        except StepFailed as again:
            raise again from error
        except FitstepError as again:
            # User code that catches its own error must not go on as if the calls had happened.
            if self._has_failed and not isinstance(error, FitstepError):
                raise not_finished(error, again, self._ran) from error
            if not self._has_failed and (self._audits is None or isinstance(again, AuditError)):
                raise
        except BaseException:
            if not self._has_failed:
                raise
        if self._ran and isinstance(error, CaptureError):
            error.say_what_stays(changed_by(self._ran), error.todo)
        following.core.forget_writes()
        self._take_ghosts()

    def _abandon(self, following: Following, survivors: list[tuple[int, torch.Tensor]]) -> None:
        """Undoes this segment: its writes, and its new gradients and optimizer state. Tensors of
        it that user code holds elsewhere get zeros."""
        self._has_failed = True
        following.core.undo_writes()
        for of, was in self._numbers:
            of.clear()
            of.update(was)
        made = {storage_id(tensor) for _, tensor in survivors}
        for place in self._reach().leaves():
            grad = place.tensor.grad
            if grad is not None and _core.has_storage(grad) and storage_id(grad) in made:
                place.tensor.grad = None
        for optimizer in following.stepped:
            for p, state in list(optimizer.state.items()):
                held = [v for v in state.values() if isinstance(v, torch.Tensor)]
                if any(_core.has_storage(v) and storage_id(v) in made for v in held):
                    del optimizer.state[p]
        for _, tensor in survivors:
            if _core.is_hollow(tensor):
                with _core.NotFollowed():
                    size = _core.storage_bytes(tensor)
                    zeros = torch.zeros(size, dtype=torch.uint8, device=tensor.device)
                _core.fill_hollow(tensor, zeros)
        self._take_ghosts()


RUN_PROGRAMS.append(Call._execute.__code__)
