"""Everything fitstep raises, and the place in the user's code that a message points at.

A message has three parts, always in this order: what was tried and what is wrong, where in the
user's code, what the user can do. `FitstepError` joins them, so that no caller forgets one:

    cannot read a number out of a tensor while the step is captured
      at train.py:31 in train_step
      return the tensor and call .item() outside the step
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from functools import lru_cache
from types import FrameType, TracebackType
from typing import Any


class FitstepError(Exception):
    """The base of every error that fitstep raises on purpose.

    `problem` says what was tried and what is wrong, `where` is "file:line in function" of the
    user's code, `todo` is what the user can do. Where a call of a step raises it, `changed` names
    what the step had changed before it asked for a tensor's value; that stays.
    """

    changed: tuple[str, ...] = ()
    _says_what_stays = False

    def __init__(self, problem: str, *, where: str | None = None, todo: str | None = None) -> None:
        self.problem = problem
        self.where = where
        self.todo = todo
        super().__init__()
        self._join()

    def _join(self) -> None:
        lines = [self.problem, f"at {self.where}" if self.where else "", self.todo or ""]
        self.args = ("\n  ".join(line for line in lines if line),)

    def say_what_stays(self, changed: Sequence[str], todo: str | None) -> None:
        """An earlier part of the call has happened. `todo`: in the place of what it said. Once."""
        if self._says_what_stays:
            return
        self._says_what_stays = True
        self.changed = tuple(changed)
        stays = "what the step had done before it asked for a tensor's value stays, as with plain "
        stays += "PyTorch"
        if changed:
            more = f" and {len(changed) - NAMED} more" if len(changed) > NAMED else ""
            stays += f"; it has changed {', '.join(changed[:NAMED])}{more}"
        self.todo = f"{todo}\n  {stays}" if todo else stays
        self._join()


class CaptureError(FitstepError):
    """The step function does something that cannot be captured as a program.

    Nothing has been changed: modules, optimizers, gradients and generators are as they were before
    the call, and plain PyTorch training goes on with the same bits.
    """


class AuditError(FitstepError):
    """A program of a step has made other bits than plain PyTorch makes from the same start.

    The call that found it has happened as with plain PyTorch, up to where its function was then;
    earlier calls that ran the program without an audit may have made wrong numbers.
    """


class SettingError(FitstepError, ValueError):
    """An argument of `compile` or `curve` that cannot be meant. Raised before anything runs."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        shown = repr(value)
        if len(shown) > 80:
            shown = f"a {type(value).__name__}"
        super().__init__(f"{name}={shown} is not possible", todo=f"give {name}= {allowed}")


class BudgetError(FitstepError, ValueError):
    """A budget that cannot be understood ("6 Gibi"), is negative, or contradicts another one."""


class DiskError(FitstepError):
    """The disk tier cannot be had: its folder is not there or takes no files, or has no room.

    Raised before anything runs. What goes wrong in a step is a StepFailed.
    """


class BudgetTooSmall(FitstepError):
    """No plan was found within the budget.

    Below `floor_bytes` provably nothing works. `least_found_bytes` is the smallest budget for which
    a verified plan is known (None if none was found). `culprits` are the ops that bind the floor,
    each as one readable line with file and line. `policy` is the one that was asked for, and
    `auto_fits` says whether `policy="auto"` has a plan (None where it is that).
    """

    def __init__(
        self,
        budget_bytes: int,
        floor_bytes: int,
        least_found_bytes: int | None = None,
        culprits: Sequence[str] = (),
        policy: str = "auto",
        auto_fits: bool | None = None,
    ) -> None:
        self.budget_bytes = budget_bytes
        self.floor_bytes = floor_bytes
        self.least_found_bytes = least_found_bytes
        self.culprits = tuple(culprits)
        self.policy = policy
        self.auto_fits = auto_fits
        problem = f"the step does not fit in {format_bytes(budget_bytes)}"
        if auto_fits is not None:
            problem += f' by the policy "{policy}"'
        if floor_bytes > budget_bytes:
            problem += f": no plan needs less than {format_bytes(floor_bytes)}"
        else:
            problem += (
                f": no plan was found, though none below {format_bytes(floor_bytes)} is possible"
            )
        if self.culprits:
            problem += "; the floor is set by" + "".join(f"\n    {line}" for line in self.culprits)
        if least_found_bytes is None:
            above = f" above {format_bytes(floor_bytes)}" if floor_bytes > budget_bytes else ""
            todo = f"raise the budget{above} or make the batch smaller"
        else:
            todo = f"give a budget of {format_bytes(least_found_bytes)}, for less no plan was found"
        if auto_fits is not None and least_found_bytes is not None:
            missing = format_bytes(least_found_bytes - budget_bytes)
            todo = f"{todo}: {missing} more than the budget"
        if auto_fits is not None:
            todo += f'; policy="auto" {"finds" if auto_fits else "does not find"} a plan within it'
        super().__init__(problem, todo=todo)


NAMED = 4  # Tensors that a StepFailed's text names; its attribute has all.


class StepFailed(FitstepError):
    """A step stopped half-way (signal, device lost, disk full).

    `unusable` names what holds neither the values from before the step nor those from after it.
    When it is empty, everything is as it was before the step, or, where the step had asked for the
    value of a tensor, as it was then, as with plain PyTorch: `changed` names what it had changed.
    """

    def __init__(
        self,
        problem: str,
        *,
        unusable: Sequence[str] = (),
        changed: Sequence[str] = (),
        todo: str,
    ) -> None:
        self.unusable = tuple(unusable)
        self.changed = tuple(changed)
        if self.unusable:
            problem += "; not usable any more: " + ", ".join(self.unusable[:NAMED])
        if len(self.unusable) > NAMED:
            problem += f" and {len(self.unusable) - NAMED} more, all in `unusable` of this error"
        super().__init__(problem, todo=todo)


def changed_by(programs: Iterable[Any]) -> list[str]:
    """What these programs, which have run, write."""
    return list(dict.fromkeys(name for program in programs for name in program.written()))


def step_failed(
    at_home: Iterable[str], message: str, written: list[str], before: list[Any]
) -> StepFailed:
    """The error for a step that stopped half-way, by when it may have written what is named; these
    programs had come to their end before."""
    changed = changed_by(before)
    if written:
        written = list(dict.fromkeys([*changed, *written]))
    homes = set(at_home) & set(written)
    if not written and before:
        todo = "what the step had done before it asked for a tensor's value stays, as with plain "
        todo += "PyTorch; nothing was changed behind that"
    elif not written:
        todo = "nothing was changed: parameters, buffers and optimizer state are as before the step"
    elif not homes:
        todo = "what the caller has given it may be half new: give it anew"
    else:
        grads = any(name.endswith(".grad") for name in homes)
        todo = "load a checkpoint into the model and the optimizer"
        todo += f"{', and zero_grad(),' if grads else ''} before going on"
    return StepFailed(message, unusable=written, changed=changed, todo=todo)


def overwritten(name: str) -> FitstepError:
    """Of an array over memory that operators of the step have yet to read."""
    return FitstepError(
        f"a numpy array wrote into {name} while operators of the step were yet to read it (they "
        "run behind the function): the step would train with other numbers",
        todo="write through the tensor (with torch.no_grad(): w.copy_(...)), or outside the step",
    )


def not_finished(raised: BaseException, why: FitstepError, before: list[Any]) -> StepFailed:
    """The error for a step whose own code has raised, behind calls that cannot run; these programs
    had come to their end before."""
    problem = f"the step raised {type(raised).__name__}: {raised}; what it had called before that "
    failed = step_failed([], f"{problem}cannot run: {why.problem}", [], before)
    # Its traceback keeps what is behind the forward pass, which the budget need not hold otherwise.
    todo = f"raise before the model is called, or {why.todo}" if why.todo else "raise earlier"
    failed.todo = todo if why._says_what_stays else f"{todo}\n  {failed.todo}"
    failed._join()
    return failed


class PlanFileError(FitstepError, ValueError):
    """A program or plan file that is cut off, from another version, edited, or for another step."""


NOTHING_CHANGED = "nothing was changed"


def not_prepared(error: Exception) -> FitstepError:
    """For a _core.CoreError out of a compile: memory that was not there, say."""
    problem = str(error.args[1])
    todo = "give another budget=; if that does not help, please report the model"
    if "; lower " in problem:  # It says itself what to do.
        todo = NOTHING_CHANGED
    return FitstepError(problem, todo=todo)


def format_bytes(size_bytes: int) -> str:
    """A size with a unit and three digits, and the exact count where the unit rounds it."""
    size = float(size_bytes)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if abs(size) < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size_bytes} bytes" if unit == "bytes" else f"{size:.4g} {unit} ({size_bytes} bytes)"


@lru_cache(maxsize=4096)
def is_user_file(filename: str) -> bool:
    """Whether a file holds user code: not the standard library, not an installed package, not us.

    Interactive code ("<stdin>", a notebook cell) is user code.
    """
    if filename.startswith(("<frozen", "<__array_function__")):
        return False
    if filename.startswith("<"):
        return True
    path = os.path.abspath(filename)
    if f"{os.sep}site-packages{os.sep}" in path or f"{os.sep}dist-packages{os.sep}" in path:
        return False
    library = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), _OWN_FOLDER)
    return not any(path.startswith(folder + os.sep) for folder in library if folder)


_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__))


def user_location(traceback: TracebackType | None = None) -> str | None:
    """ "file:line in function" of the innermost frame of user code; None if there is none.

    Looks at `traceback` if given, otherwise at the calling stack.
    """
    if traceback is not None:
        found = None
        while traceback is not None:
            code = traceback.tb_frame.f_code
            if is_user_file(code.co_filename):
                found = f"{code.co_filename}:{traceback.tb_lineno} in {code.co_name}"
            traceback = traceback.tb_next
        return found
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back
    return None
