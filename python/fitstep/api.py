"""The functions that users call: `compile` and `curve`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import keystr, tree_flatten_with_path

from . import _core
from .arguments import arguments_of, runs_later
from .audits import check_audits
from .collector import all_objects
from .device import device_of
from .errors import CaptureError, PlanFileError, not_prepared, user_location
from .following import current
from .maker import Maker
from .planned import Planned
from .profile_cache import ProfileCache
from .programs import add_homes
from .progress import progress_line
from .session import Session
from .sessions import session_for
from .settings import Settings, check_int, check_path, check_switch, several
from .state import Reach, discover
from .step import Step


def compile(  # noqa: A001 - the word that PyTorch's users know.
    function: Callable[..., Any],
    example: Any,
    budget: int | str | None = None,
    *,
    model: torch.nn.Module | Iterable[torch.nn.Module] | None = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    plan: str | Path | None = None,
    policy: str = "auto",
    keep_grads: bool = False,
    max_variants: int = 32,
    audits: str | None = None,
    seed: int = 1,
    effort: int = 8,
    progress: bool | None = None,
    host_budget: int | str | None = None,
    disk_budget: int | str | None = None,
    disk_dir: str | os.PathLike[str] | None = None,
    disk_checksums: bool = True,
    disk_codes: bool = True,
    host_codes: bool = False,
    cuda_graph: bool = False,
) -> Step:
    """Makes a training step that runs inside a memory budget, with the bits of plain PyTorch.

    Args:
        function: one training step, as for plain PyTorch; tensors that it returns are detached.
            Model and optimizer are found in its reach; `model` and `optimizer` name more.
        example: the arguments of a call by position, a tuple, or a single one (a list, a dict);
            nested as you like. Tensors must not require a gradient; values do not matter.
        budget: bytes, a size such as "6GiB", or a share of the plain peak such as "75%": for all
            tensors and kernels' temporaries. None: as plain PyTorch needs, or as before; may grow.
        host_budget: bytes beside the budget, for what plans evict; None: nothing is evicted.
        disk_budget: the same in a file, whose blocks are taken before the first step.
        disk_dir: the folder of that file, where it has no name; None: that of temporary files.
        disk_checksums: compare what comes back from the file with what was written there.
        disk_codes, host_codes: encode what goes there, without loss, where samples say it pays.
        cuda_graph: give steps to the GPU as one graph where that can be; counts inputs twice.
        plan: a file from `step.plan.save(path)`, to be run instead of one that is made.
        policy: "auto", "none" (keeps all), one move alone ("recompute", "offload"), or a published
            system's; an unknown name is answered with all of them.
        keep_grads: leave `p.grad` set also where an optimizer of the step has used it.
        audits: "auto": calls 1, 2, 3, 30, 300, …, and the first after a new program, are made by
            plain PyTorch too and compared where that fits; "all"; "off"; None: FITSTEP_AUDITS says.
        max_variants: programs that are kept, or twice those of a call, up to eight times this.
        seed, effort: of the planner. Equal seeds give equal plans; more rounds, better ones.
        progress: a progress line while profiling and planning; None: if stderr is a terminal.

    Raises:
        SettingError: a setting is of a kind or in a range that cannot be meant.
        CaptureError: the step does something that cannot be captured; says where and what to do.
        BudgetTooSmall: no plan was found; names the floor and the least budget known to work.
        BudgetError: the budget cannot be understood, or contradicts an earlier one.
        DiskError: `disk_dir` takes no files, or has no room for what the plan evicts.
        AuditError (of a call): a program made other bits than plain PyTorch.
        PlanFileError: `plan` is damaged or for another step. After each all is as it was.
    """
    below = host_budget, disk_budget, disk_dir, disk_checksums, disk_codes, host_codes, cuda_graph
    settings = Settings(budget, policy, seed, effort, None, *below)
    _check_options(max_variants, keep_grads, progress, plan)
    wanted_audits = check_audits(audits)
    find_reach = _reach_finder(function, model, optimizer)
    reach, args, given_plan = find_reach(), arguments_of(function, example), _read_plan(plan)
    device = device_of(_places(reach, args))
    session = session_for([place.tensor for place in reach.unique()], settings, device)
    maker = Maker(function, find_reach, session, ProfileCache(device), keep_grads)
    step = Step(maker, session, max_variants, wanted_audits)
    with progress_line(progress) as show:
        _make_variants(step, args, given_plan, show)
    return step


def _check_one_process(reach: Reach) -> None:
    """Raises CaptureError where a DistributedDataParallel of several processes has a module within
    reach: used past it, as `.module`, each process would train by itself."""
    found = torch.distributed
    if not (found.is_available() and found.is_initialized() and found.get_world_size() > 1):
        return
    inside = {id(module) for _, root in reach.modules for module in root.modules()}
    for one in all_objects():
        is_parallel = issubclass(type(one), torch.nn.parallel.DistributedDataParallel)
        if is_parallel and id(one.module) in inside:
            raise CaptureError(
                "the step's model is inside a DistributedDataParallel, and a compiled step does "
                f"not average gradients over its {found.get_world_size()} processes",
                todo="train with one process: collectives, DistributedDataParallel and FSDP are "
                "not supported yet",
            )


def _places(reach: Reach, args: tuple[Any, ...]) -> Iterator[tuple[str, torch.Tensor]]:
    """All tensors that a step starts with, and what they are called. Raises as the above."""
    _check_one_process(reach)
    for place in reach.unique():
        yield reach.name(place.tensor), place.tensor
    for path, leaf in tree_flatten_with_path(args)[0]:
        if isinstance(leaf, torch.Tensor):
            yield f"the example's tensor {keystr(path)}", leaf


def _check_options(max_variants: int, keep_grads: bool, progress: bool | None, plan: Any) -> None:
    check_int("max_variants", max_variants, 1, 2**31)
    check_switch("keep_grads", keep_grads)
    check_switch("progress", progress, may_be_none=True)
    check_path("plan", plan)


def _make_variants(
    step: Step, args: tuple[Any, ...], given_plan: Any, show: Callable[[str, float], None] | None
) -> None:
    maker = step._maker
    maker.session.settings.progress = maker.cache.progress = show
    try:
        with maker.session.access.alone():
            step.prepare(args, given_plan)
    except _core.CoreError as error:
        if given_plan is not None:
            raise PlanFileError(str(error.args[1]), todo="compile without plan=") from None
        raise not_prepared(error) from None
    finally:
        maker.session.settings.progress = maker.cache.progress = None


@dataclass(frozen=True)
class CurvePoint:
    """What a budget buys."""

    budget_bytes: int
    predicted_s: float  # Of one step.
    recomputed_ops: int


@dataclass(frozen=True)
class Curve:
    """The whole trade between memory and time, for the steady step."""

    floor_bytes: int  # Proven: no budget below this works; what BudgetTooSmall names too.
    plain_peak_bytes: int
    bound_s: float  # No plan is faster than this.
    points: tuple[CurvePoint, ...]  # From the most bytes to the fewest.

    def __str__(self) -> str:
        size = _core.format_bytes
        lines = [
            f"plain peak {size(self.plain_peak_bytes)}, floor {size(self.floor_bytes)}, "
            f"bound {self.bound_s * 1e3:.3g} ms",
            f"{'budget':>12} {'of plain':>9} {'predicted':>12} {'recomputed':>11}",
        ]
        for point in self.points:
            share = point.budget_bytes / max(self.plain_peak_bytes, 1)
            lines.append(
                f"{size(point.budget_bytes):>12} {share:>9.0%} {point.predicted_s * 1e3:>9.3g} ms "
                f"{point.recomputed_ops:>11}"
            )
        return "\n".join(lines)


def curve(
    function: Callable[..., Any],
    example: Any,
    *,
    model: torch.nn.Module | Iterable[torch.nn.Module] | None = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    seed: int = 1,
    effort: int = 8,
    progress: bool | None = None,
    host_budget: int | str | None = None,
    disk_budget: int | str | None = None,
    disk_dir: str | os.PathLike[str] | None = None,
) -> Curve:
    """Budget against predicted step time, down to the least budget for which a plan was found.

    Takes the arguments of `compile`, and raises what it raises but for budgets. Trains nothing and
    changes nothing.
    """
    below = (host_budget, disk_budget, disk_dir)
    settings = Settings("100%", "auto", seed, effort, None, *below)
    check_switch("progress", progress, may_be_none=True)
    find_reach = _reach_finder(function, model, optimizer)
    reach = find_reach()
    args = arguments_of(function, example)
    device = device_of(_places(reach, args))
    session = Session(settings, device)
    planning = session.planning
    with progress_line(progress) as show:
        cache = ProfileCache(device)
        cache.progress = show
        session.settings.progress = show
        maker = Maker(function, find_reach, session, cache, keep_grads=False)
        capture = maker.preview(args, {})
        cache.write()
        variant = capture.variants[-1]
        add_homes(capture.variants, session)
        planning.set_budget(variant.step.plain_peak_bytes(), cache)
        every = [Planned(v.step, external_bytes=v.step.external_bytes()) for v in capture.variants]
        plans = planning.frontier(every[-1])
        floor, least = planning.take_least(every)
    outside = max(one.external_bytes for one in every)
    points: dict[int, CurvePoint] = {}  # The fastest of each budget comes first.
    for plan in plans:
        budget = max(least, planning.budget_for(plan.certificate()["height_bytes"], outside))
        predicted_s = plan.certificate()["predicted_s"]
        again = plan.run_counts(variant.step)[1]
        points.setdefault(budget, CurvePoint(budget, predicted_s, again))
    bound = min((plan.certificate()["bound_s"] for plan in plans), default=0.0)
    return Curve(floor, variant.step.plain_peak_bytes(), bound, tuple(points.values()))


def _reach_finder(function: Callable[..., Any], model: Any, optimizer: Any) -> Callable[..., Reach]:
    if current() is not None:
        raise CaptureError(
            "fitstep.compile is called in a step that is compiled itself",
            where=user_location(),
            todo="compile steps while none runs",
        )
    if not callable(function):
        raise CaptureError(
            f"fitstep was given {type(function).__name__}, not a step function",
            todo="pass a function that does one whole training step",
        )
    if runs_later(function):
        raise CaptureError(
            "the step function is a coroutine or has a `yield`: to call it runs nothing yet",
            todo="pass a plain function that does one whole training step and returns its results",
        )
    models = several("model", model, torch.nn.Module, "a torch.nn.Module")
    optimizers = several("optimizer", optimizer, torch.optim.Optimizer, "a torch optimizer")
    return lambda arguments=(): discover(
        function, model=models, optimizer=optimizers, arguments=arguments
    )


def _read_plan(path: str | Path | None) -> Any:
    if path is None:
        return None
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanFileError(
            f"cannot read the plan {path}: {error}", todo="give a file that step.plan.save wrote"
        ) from None
    try:
        return _core.parse_plan(text)
    except _core.CoreError as error:
        raise PlanFileError(
            f"{path}: {error.args[1]}", todo="save the plan again with step.plan.save"
        ) from None
