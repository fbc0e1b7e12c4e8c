"""One call of a compiled step: the function runs, segment after segment is run behind it.

function     forward, backward, .item() ........... optimizer.step(), return
segments     [ recorded ──> run: bytes are there ]  [ recorded ──> run ]
Python       hollow tensors that somebody holds get the memory with their content
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from . import _core
from .audits import Audits, Truth, audited
from .codes import choose_codes, shall_look
from .errors import (
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
from .maker import FoundTooLate
from .recordings import arguments_in, label_of, recorded_of
from .results import detached
from .seen_memory import ArrayIsAlive, forget_dead_arrays
from .uninterrupted import RUN_PROGRAMS
from .variants import Recorded, Variant, lower, roles_of, storage_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from .following import Ended, Following
    from .planned import Planned
    from .programs import Programs
    from .state import Reach


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
        self._audits = audits  # Where this call is one of them.
        self._part = 0
        self._ran: list[Any] = []  # Programs of this call that have come to their end.
        self._looked: list[tuple[Planned, Any]] = []  # What samples copies: variants of the core.
        self._has_failed = False
        self._has_raised = False  # The function, not what runs behind it.
        self.is_left_out = False  # A segment that an audit could not compare.
        self._note_numbers()

    def run(self, following: Following) -> Any:
        """What the function returns; tensors detached."""
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
        """They are put back if the step fails behind this."""
        self._numbers = [(of, dict(of)) for of in self._maker.numbers()]

    # -- segments ----------------------------------------------------------------------------

    def end_segment(self, following: Following) -> None:
        """Runs what is recorded, and gives hollow tensors their memory."""
        with _core.NotFollowed():  # Operators that this calls are its own.
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
                self._keep_plain(following)  # And the next call will know.
                return
            if self._audits is not None and self._has_raised:  # It is all there.
                raise
            if self._audits is not None:  # Plain PyTorch has been further.
                Truth(targets, ended.starts, ended.drawn).to_start()
            self._abandon(following, survivors)
            if self._ran and isinstance(error, FitstepError):
                todo = None if error.todo == NOTHING_CHANGED else error.todo
                todo = "later calls know it" if isinstance(error, FoundTooLate) else todo
                error.say_what_stays(changed_by(self._ran), todo)
            raise
        if ended.has_raised:  # A kernel of an audit; no program makes the half of what it writes.
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
        """What plain PyTorch has made in an audit stays, and the next call is audited instead."""
        assert self._audits is not None
        self._audits.has_new = self.is_left_out = True
        self._part += 1
        following.core.forget_writes()
        self._note_numbers()

    def _variant(self, ended: Ended) -> Variant:
        """That runs what has ended, with all in its place."""
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
        # From now on it is known that these numbers change: no form of an op may rely on them. The
        # program was made of what the segment is no longer, also where no other one can be made.
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
        following.core.forget_writes()  # What has happened up to here stays.
        self._note_numbers()
        seconds = time.perf_counter() - began
        self._programs.note(variant, seconds)
        if self._audits is not None:
            self._audits.seconds -= seconds

    def _where_tensors_are(self, variant: Variant, ended: Ended) -> Variant:
        """The variant, with at home what it has there; or one for tensors that have to stay."""
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
        """What the program expects at home is there: tensors that user code has replaced move in,
        and those that they have replaced move out."""
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
        """Runs the program from the same start, and compares what it leaves."""
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
        """Gradients that an optimizer of the step has used are gone, unless somebody reads them."""
        if self._session.grads_in_use:
            return
        ghosts = self._session.ghosts
        for optimizer in following.stepped:
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is None or p.grad.layout is not torch.strided:
                        continue
                    ghost = ghosts[id(p)][1] if id(p) in ghosts else None
                    if ghost is None or not _is_like(ghost, p):
                        ghosts[id(p)] = (p, _core.make_ghost(p))
                    p.grad = None

    def _put_ghosts(self) -> None:
        """Gradients that an earlier step has dropped are there in plain PyTorch. In their place are
        tensors without memory: a step that clears them never looks, and one that reads them is
        found."""
        if self._session.grads_in_use:
            self._session.ghosts = {}
        for p, ghost in self._session.ghosts.values():
            if p.grad is None and _is_like(ghost, p):
                p.grad = ghost

    def _take_ghosts(self) -> None:
        for p, ghost in self._session.ghosts.values():
            if p.grad is ghost:
                p.grad = None

    # -- errors ------------------------------------------------------------------------------

    def _finish_after(self, following: Following, error: BaseException) -> None:
        """The function has raised: what it did before has happened, as with plain PyTorch. Where
        that cannot be, as where a segment has failed, it has not, and no tensor stays hollow."""
        self._has_raised = True
        try:
            if self._has_failed:
                self._abandon(following, following.core.end_segment()[4])
            else:
                self.end_segment(following)
        except StepFailed as again:
            raise again from error
        except FitstepError as again:
            # The user's code may catch its own error and go on, as if it had happened.
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
        """Nothing of this segment has happened: what ran at once is undone, and what was made is
        gone from gradients and optimizers' state. Elsewhere its tensors hold zeros."""
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


def _is_like(ghost: torch.Tensor, p: torch.Tensor) -> bool:
    """Whether it can be the gradient; a model may be of another dtype since."""
    return ghost.shape == p.shape and ghost.dtype == p.dtype and ghost.device == p.device
