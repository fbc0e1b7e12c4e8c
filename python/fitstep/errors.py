"""Every error that fitstep raises, and the search for the line of user code that a message names.

A message has three parts in this order: what is wrong, where in the user's code, what to do.
`FitstepError` joins the three, for example:

    aten::resize_ changes which memory a tensor uses
      at train.py:31 in train_step
      make a new tensor instead of set_() or resize_()
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
    """The base class of every error that fitstep raises on purpose.

    `problem` says what is wrong, `where` is "file:line in function" of the user's code or None,
    `todo` says what to do, or is None. If a call of a step raises the error, `changed` names the
    tensors that the step changed before its last `.item()`; these changes stay.
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

    def say_nothing_changed(self) -> None:
        """Adds that tensors, optimizers and generators are as before `compile`."""
        self.todo = f"{self.todo}\n  {NOTHING_CHANGED}" if self.todo else NOTHING_CHANGED
        self._join()

    def say_what_stays(self, changed: Sequence[str], todo: str | None) -> None:
        """Adds that an earlier part of the call has happened; `todo` replaces the old one. A second
        call does nothing."""
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
    """The step function does something that fitstep cannot record in a program.

    Nothing has changed: modules, optimizers, gradients and random generators are as before the
    call. Training with plain PyTorch goes on with the same bits.
    """


class AuditError(FitstepError):
    """An audit found that a program of the step computes other bits than plain PyTorch.

    The audited call has plain PyTorch's results up to the place that raises. Earlier calls that ran
    the program without an audit may have computed wrong numbers.
    """


class SettingError(FitstepError, ValueError):
    """An argument of `compile` or `curve` has a wrong type or value; nothing has run yet."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        shown = repr(value)
        if len(shown) > 80:
            shown = f"a {type(value).__name__}"
        super().__init__(f"{name}={shown} is not possible", todo=f"{name}= has to be {allowed}")


class BudgetError(FitstepError, ValueError):
    """A budget is not a size ("6 Gibi"), is negative, or differs from that of an open session."""


class DiskError(FitstepError):
    """`disk_dir` does not exist, takes no files, or has no room for the disk tier.

    Raised before anything runs. A drive that fails during a step raises StepFailed.
    """


class BudgetTooSmall(FitstepError):
    """fitstep found no plan within the budget.

    `floor_bytes`: proven, no budget below it works. `least_found_bytes`: the smallest budget for
    which fitstep found a plan, or None. `culprits`: the ops that set the floor, one line of text
    with file and line each. `policy`: the `policy=` of compile. `auto_fits`: whether
    `policy="auto"` has a plan within the budget; None if `policy` is "auto". `unrepeatable`: the
    operators that no plan recomputes, because their bits differ from run to run.
    """

    def __init__(
        self,
        budget_bytes: int,
        floor_bytes: int,
        least_found_bytes: int | None = None,
        culprits: Sequence[str] = (),
        policy: str = "auto",
        auto_fits: bool | None = None,
        unrepeatable: Sequence[str] = (),
    ) -> None:
        self.budget_bytes = budget_bytes
        self.floor_bytes = floor_bytes
        self.least_found_bytes = least_found_bytes
        self.culprits = tuple(culprits)
        self.policy = policy
        self.auto_fits = auto_fits
        self.unrepeatable = tuple(unrepeatable)
        problem = f"the step does not fit in {format_bytes(budget_bytes)}"
        if auto_fits is not None:
            problem += f' with policy="{policy}"'
        if floor_bytes > budget_bytes:
            problem += f": every plan needs at least {format_bytes(floor_bytes)}"
        else:
            problem += f": no plan was found; below {format_bytes(floor_bytes)} none is possible"
        if self.culprits:
            problem += "; most is needed by" + "".join(f"\n    {line}" for line in self.culprits)
        if self.unrepeatable:
            problem += "\n  operators that differ from run to run in plain PyTorch are never "
            problem += f"recomputed: {', '.join(self.unrepeatable[:NAMED])}"
        if len(self.unrepeatable) > NAMED:
            problem += f" and {len(self.unrepeatable) - NAMED} more"
        if least_found_bytes is None:
            above = f" above {format_bytes(floor_bytes)}" if floor_bytes > budget_bytes else ""
            todo = f"raise the budget{above} or make the batch smaller"
        else:
            todo = f"pass budget={least_found_bytes}: {format_bytes(least_found_bytes)} is the "
            todo += "smallest budget for which a plan was found"
        if auto_fits is not None and least_found_bytes is not None:
            todo += f", {format_bytes(least_found_bytes - budget_bytes)} more than this budget"
        if auto_fits is not None:
            todo += f'; policy="auto" {"has a plan" if auto_fits else "has none"} within this one'
        super().__init__(problem, todo=todo)


NAMED = 4  # A message names at most so many tensors; the error's attributes have all of them.


class StepFailed(FitstepError):
    """A step stopped half-way: an operator raised, a signal came, a drive failed.

    `unusable` names tensors that hold neither their old nor their new values. If `unusable` is
    empty, every tensor is as before the step, or as at the step's last `.item()`. `changed` names
    the tensors that the step changed before that `.item()`.
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
    """Names of the tensors that these programs write."""
    return list(dict.fromkeys(name for program in programs for name in program.written()))


def step_failed(
    at_home: Iterable[str], message: str, written: list[str], before: list[Any]
) -> StepFailed:
    """The error for a step that stopped half-way. `written`: names of what the stopped program may
    have written. `before`: programs of the same call that ran to their end."""
    changed = changed_by(before)
    if written:
        written = list(dict.fromkeys([*changed, *written]))
    homes = set(at_home) & set(written)
    if not written and before:
        todo = "what the step had done before it asked for a tensor's value stays, as with plain "
        todo += "PyTorch; nothing was changed after that"
    elif not written:
        todo = "nothing was changed: parameters, buffers and optimizer state are as before the step"
    elif not homes:
        todo = "arguments of the call may be half written: create them again before the next call"
    else:
        grads = any(name.endswith(".grad") for name in homes)
        todo = "load a checkpoint into the model and the optimizer"
        todo += f"{', and zero_grad(),' if grads else ''} before going on"
    return StepFailed(message, unusable=written, changed=changed, todo=todo)


def overwritten(name: str) -> FitstepError:
    """The error for a numpy array that wrote into memory which recorded operators read later."""
    return FitstepError(
        f"a numpy array wrote into {name}, which operators that were called before have not read "
        "yet (they run later): the step would compute other numbers than plain PyTorch",
        todo="write through the tensor (with torch.no_grad(): w.copy_(...)), or outside the step",
    )


def not_finished(raised: BaseException, why: FitstepError, before: list[Any]) -> StepFailed:
    """The error for a step whose own code raised, if the operators that it had called cannot run.
    `before`: programs of the same call that ran to their end."""
    problem = f"the step raised {type(raised).__name__}: {raised}; what it had called before that "
    failed = step_failed([], f"{problem}cannot run: {why.problem}", [], before)
    # The traceback of `raised` keeps activations, which the budget need not hold at once otherwise.
    todo = f"raise before the model is called, or {why.todo}" if why.todo else "raise earlier"
    failed.todo = todo if why._says_what_stays else f"{todo}\n  {failed.todo}"
    failed._join()
    return failed


class PlanFileError(FitstepError, ValueError):
    """A plan file is cut off, edited, from another version, or for another step."""


NOTHING_CHANGED = "nothing was changed"


def not_prepared(error: Exception) -> FitstepError:
    """The FitstepError for a _core.CoreError during a compile, such as memory that is not free."""
    problem = str(error.args[1])
    todo = "give another budget=; if that does not help, please report the model"
    if "; lower " in problem:  # The core's message says already what to do.
        todo = NOTHING_CHANGED
    return FitstepError(problem, todo=todo)


def format_bytes(size_bytes: int) -> str:
    """A size with a unit, and the exact number of bytes: "6 GiB (6442450944 bytes)"."""
    size = float(size_bytes)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if abs(size) < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size_bytes} bytes" if unit == "bytes" else f"{size:.4g} {unit} ({size_bytes} bytes)"


@lru_cache(maxsize=4096)
def is_user_file(filename: str) -> bool:
    """Whether a file is user code: not the standard library, an installed package, or fitstep.

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

    Searches `traceback` if given, otherwise the stack of the caller.
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
