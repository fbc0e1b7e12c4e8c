"""Making a step: from the arguments of `compile` to programs and plans, now or at the first call.

compile(function, example=...)   Making.make(step, args)        at once
compile(function), @step         FirstCallStep --first call-->  Making.make(step, args, kwargs)
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import _core
from ..base.progress import progress_line
from ..errors import PlanFileError, not_prepared
from ..follow.maker import Maker
from ..memory.budget import Budget, Size
from ..memory.profile_cache import ProfileCache
from ..memory.settings import Settings, check_int, check_path, check_switch
from .audits import check_audits
from .newer_torch import check_torch
from .sessions import session_for
from .step import Step
from .subject import Models, Optimizers, Subject


@dataclass(eq=False)
class Making:
    """The checked arguments of `compile`. They hold nothing of a step that was made."""

    subject: Subject
    settings: Settings
    most_variants: int
    audits: str
    keep_grads: bool
    progress: bool | None
    plan: Any  # _core.Plan of a file, or None.

    def make(self, step: Step, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Makes `step` a compiled step. Raises as `compile` does; nothing has changed then, but
        `step` is not to be used."""
        subject = self.subject
        reach, device = subject.look(args, kwargs)
        tensors = [place.tensor for place in reach.unique()]
        session = session_for(tensors, self.settings.on(device), device)
        cache = ProfileCache(device)
        maker = Maker(subject.function, subject.find_reach, session, cache, self.keep_grads)
        Step.__init__(step, maker, session, self.most_variants, self.audits)
        settings = session.settings
        with progress_line(self.progress) as show:
            settings.progress = maker.cache.progress = show
            try:
                with session.access.alone():
                    step.prepare(args, self.plan, kwargs)
            except _core.CoreError as error:
                if self.plan is not None:
                    raise PlanFileError(
                        str(error.args[1]), todo="call compile without plan="
                    ) from None
                raise not_prepared(error) from None
            finally:
                settings.progress = maker.cache.progress = None


def making(
    function: Any,
    budget: Budget | None,
    *,
    model: Models = None,
    optimizer: Optimizers = None,
    plan: str | Path | None = None,
    policy: str = "auto",
    keep_grads: bool = False,
    max_variants: int = 32,
    audits: str | None = None,
    seed: int = 1,
    effort: int = 8,
    progress: bool | None = None,
    host_budget: Size | None = None,
    disk_budget: Size | None = None,
    disk_dir: str | os.PathLike[str] | None = None,
    disk_checksums: bool = True,
    disk_codes: bool = True,
    host_codes: bool = False,
    cuda_graph: bool = False,
) -> Making:
    """The arguments of `compile`, checked. Raises SettingError, BudgetError, CaptureError,
    PlanFileError, and FitstepError for an untested torch that has failed its trial."""
    check_torch()
    below = host_budget, disk_budget, disk_dir, disk_checksums, disk_codes, host_codes, cuda_graph
    settings = Settings(budget, policy, seed, effort, None, *below)
    check_int("max_variants", max_variants, 1, 2**31)
    check_switch("keep_grads", keep_grads)
    check_switch("progress", progress, may_be_none=True)
    check_path("plan", plan)
    wanted_audits = check_audits(audits)
    subject = Subject(function, model, optimizer)
    return Making(
        subject, settings, max_variants, wanted_audits, keep_grads, progress, _read_plan(plan)
    )


def _read_plan(path: str | Path | None) -> Any:
    if path is None:
        return None
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanFileError(
            f"cannot read plan={path}: {error}", todo="pass a file that step.plan.save(path) wrote"
        ) from None
    try:
        return _core.parse_plan(text)
    except _core.CoreError as error:
        raise PlanFileError(
            f"{path}: {error.args[1]}", todo="save the plan again with step.plan.save(path)"
        ) from None
