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
from .base.arguments import arguments_of, runs_later
from .base.collector import all_objects
from .base.progress import progress_line
from .errors import CaptureError, PlanFileError, not_prepared, user_location
from .follow.following import current
from .follow.maker import Maker
from .memory.device import device_of
from .memory.planned import Planned
from .memory.profile_cache import ProfileCache
from .memory.session import Session
from .memory.settings import Settings, check_int, check_path, check_switch, several
from .state import Reach, discover
from .steps.audits import check_audits
from .steps.programs import add_homes
from .steps.sessions import session_for
from .steps.step import Step


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
    """Makes a training step for a memory budget, with PyTorch's bits; an error changes nothing.

    Args:
        function: one training step, as for plain PyTorch. fitstep finds the model and the optimizer
            in its closure, globals and attributes. The step detaches the tensors that it returns.
        example: the positional arguments of one call, as a tuple; a single argument needs no tuple.
            Shapes and dtypes matter, values do not. No tensor may require a gradient.
        budget: for all tensors and kernel workspaces: bytes (int), a size ("6GiB"), or a share of
            plain PyTorch's peak ("75%"). None: the share "100%", or what an earlier compile of this
            model has. A share of 100 % or more, and None, may grow when a call needs more.
        model, optimizer: modules and optimizers that fitstep does not find by itself, or lists.
        plan: path of a file from `step.plan.save(path)`; this plan runs instead of a new one.
        policy: "auto" (all moves), "none", "recompute", "offload", or a published system's name.
        keep_grads: True keeps `p.grad`; False clears it once an optimizer of the step has used it.
        max_variants: programs that a step keeps, one for each shape and branch; an int from 1.
        audits: calls that plain PyTorch makes too, to compare bits: "auto" (1, 2, 3, 30, 300, …,
            and after a new program), "all", "off". None: $FITSTEP_AUDITS, or "auto".
        seed: of the planner, an int from 0. Equal seeds give equal plans.
        effort: rounds of the planner's search, an int from 1.
        progress: show a progress line on stderr. None: only if stderr is a terminal.
        host_budget: memory outside the budget (pinned for a GPU), to which plans may move tensors
            while the step does not need them; written like `budget`. None: no such memory.
        disk_budget, disk_dir: the same in a file, and the file's folder (None: the system's for
            temporary files). compile reserves the file's blocks; the file has no name.
        disk_checksums: compare what comes back from the file with what was written.
        disk_codes, host_codes: compress copies to the disk or host, without loss, where it pays.
        cuda_graph: launch the step as one CUDA graph where possible; counts inputs twice.

    Raises:
        SettingError, BudgetError: an argument is not possible; names what is.
        CaptureError: fitstep cannot record the step; says where and what to write instead.
        BudgetTooSmall: no plan was found; names the smallest budget with a plan, and the floor.
        DiskError, PlanFileError: `disk_dir` has no room; `plan` is damaged or for another step.
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
    """Raises CaptureError if a module of the step is inside a DistributedDataParallel: a step that
    uses its `.module` would train in each process alone."""
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
    """(name, tensor) of the model, the optimizer and the example. Raises CaptureError for DDP."""
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
            raise PlanFileError(str(error.args[1]), todo="call compile without plan=") from None
        raise not_prepared(error) from None
    finally:
        maker.session.settings.progress = maker.cache.progress = None


@dataclass(frozen=True)
class CurvePoint:
    """The fastest plan that was found for one budget."""

    budget_bytes: int
    predicted_s: float  # Seconds of one step.
    recomputed_ops: int  # Runs of ops beyond the first, in one step.


@dataclass(frozen=True)
class Curve:
    """Memory against time, for the steady step. `print` it for a table."""

    floor_bytes: int  # Proven: no budget below this works. BudgetTooSmall names the same number.
    plain_peak_bytes: int  # What plain PyTorch needs.
    bound_s: float  # Proven: no plan is predicted faster than these seconds.
    points: tuple[CurvePoint, ...]  # The largest budget first.

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
    """Predicted step time for each budget, down to the smallest for which a plan was found.

    Call it before `compile` to choose a budget. The arguments are those of `compile`; it raises
    SettingError, CaptureError, DiskError. Trains nothing and changes nothing.
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
        found = maker.preview(args, {})
        variant = found.variants[-1]
        add_homes(found.variants, session)
        planning.set_budget(variant.step.plain_peak_bytes(), cache)
        every = [Planned(v.step, external_bytes=v.step.external_bytes()) for v in found.variants]
        plans = planning.frontier(every[-1])
        floor, least = planning.take_least(every)
    outside = max(one.external_bytes for one in every)
    points: dict[int, CurvePoint] = {}  # `plans` has the fastest plan of each budget first.
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
            "fitstep.compile is called inside a compiled step",
            where=user_location(),
            todo="call fitstep.compile outside the step, while none runs",
        )
    if not callable(function):
        raise CaptureError(
            f"function= is a {type(function).__name__}, which cannot be called",
            todo="pass a function that does one whole training step",
        )
    if runs_later(function):
        raise CaptureError(
            "the step function is a coroutine or a generator: a call of it runs nothing yet",
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
            f"cannot read plan={path}: {error}", todo="pass a file that step.plan.save(path) wrote"
        ) from None
    try:
        return _core.parse_plan(text)
    except _core.CoreError as error:
        raise PlanFileError(
            f"{path}: {error.args[1]}", todo="save the plan again with step.plan.save(path)"
        ) from None
