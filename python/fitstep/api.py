"""The functions that users call."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .base.arguments import arguments_of
from .base.progress import progress_line
from .errors import SettingError
from .memory.budget import Budget, Size
from .memory.profile_cache import TooLarge
from .memory.settings import check_int
from .questions.asked import Asked
from .questions.batches import BatchSearch, LargestBatch, check_sizes
from .questions.curve import Curve, curve_of
from .questions.fits import Fits, refused_by_size, verdict
from .steps.first_call import FirstCallStep
from .steps.making import Making, making
from .steps.step import Step
from .steps.subject import Models, Optimizers, check_outside


def compile(  # noqa: A001 - the word that PyTorch's users know.
    function: Callable[..., Any],
    example: Any = None,
    budget: Budget | None = None,
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
) -> Step:
    """Makes a training step that fits into a memory budget, with plain PyTorch's bits.

    Args (docs/reference/settings.md says when to change which):
        function: one training step, as for plain PyTorch. fitstep finds the model and the optimizer
            in its closure, globals and attributes. The step detaches the tensors that it returns.
        example: the positional arguments of one call, as a tuple; a single argument needs no tuple.
            Shapes and dtypes matter, values do not. No tensor may require a gradient. None: the
            first call compiles the step, with its own arguments.
        budget: for all tensors and kernel workspaces: bytes (int), a size ("6GiB"), or a share of
            plain PyTorch's peak ("75%" or 0.75). None: the share "100%", or what an earlier compile
            of this model has. A share of 100 % or more, and None, may grow when a call needs more.
            Or a dict of all budgets: {0: "20GiB", "cpu": "64GiB", "disk": "1TiB"} for a GPU, the
            host's memory and a file; {"cpu": "4GiB", "disk": "1TiB"} for a model on the CPU.
        model, optimizer: modules and optimizers that fitstep does not find by itself, or lists.
        plan: path of a file from `step.plan.save(path)`; this plan runs instead of a new one.
        policy: "auto" (all moves), "none", "recompute", "offload", or a published system's name.
        keep_grads: True keeps `p.grad`; False clears it once an optimizer of the step has used it.
        max_variants: programs that a step keeps, one for each shape and branch; an int from 1.
        audits: calls that plain PyTorch makes too, to compare bits: "auto" (1, 2, 3, 30, 300, …,
            and after a new program), "all", "off". None: $FITSTEP_AUDITS, or "auto".
        seed: of the planner, an int from 0. Equal seeds give equal plans.
        effort: rounds of the planner's search, an int from 1.
        progress: show a progress line. None: only on a terminal or in a notebook.
        host_budget: memory outside the budget (pinned for a GPU), to which plans may move tensors
            while the step does not need them; written like `budget`. None: no such memory.
        disk_budget, disk_dir: the same in a file, and the file's folder (None: the system's for
            temporary files). compile reserves the file's blocks; the file has no name.
        disk_checksums: compare what comes back from the file with what was written.
        disk_codes, host_codes: compress copies to the disk or host, without loss, where it pays.
        cuda_graph: launch the step as one CUDA graph where possible; counts inputs twice.

    Raises (nothing has changed then):
        SettingError, BudgetError: an argument is not possible; names what is.
        CaptureError: fitstep cannot record the step; says where and what to write instead.
        BudgetTooSmall: no plan was found; names the smallest budget with a plan, and the floor.
        DiskError, PlanFileError: `disk_dir` has no room; `plan` is damaged or for another step.
        FitstepError: torch is newer than the tested ones, and has failed a small training.
    """
    given = {name: value for name, value in locals().items() if name != "example"}
    made_of = making(**given)
    if example is None:
        return FirstCallStep(made_of)
    check_outside()
    made = Step.__new__(Step)
    made_of.make(made, arguments_of(made_of.subject.function, example), {})
    return made


def step(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Makes a function or a method a training step that its first call compiles.

        @fitstep.step(budget="8GiB")
        def train_step(x, y): ...

    The keyword arguments are those of `compile`. Model and optimizer need not exist yet: the first
    call finds them, and plans with its own arguments. It raises what `compile` raises; then nothing
    has changed, and the next call tries again. Until then `report()` and `check()` raise
    FitstepError. Of a method each object has a step of its own, compiled by its first call. With
    `example=` the step is compiled at once. After `close()` the next call compiles anew.
    """
    if isinstance(function, int | float | str | Mapping):
        allowed = f"left out: write @fitstep.step(budget={function!r})"
        raise SettingError("function", function, allowed)
    if function is None:
        return lambda given: step(given, **options)
    return compile(function, **options)


def _making(function: Any, budget: Budget | None, options: dict[str, Any]) -> Making:
    """`making`, with the TypeError of `compile` for an argument that there is not."""
    inspect.signature(compile).bind(function, None, budget, **options)
    return making(function, budget, **options)


def curve(
    function: Callable[..., Any],
    example: Any,
    *,
    model: Models = None,
    optimizer: Optimizers = None,
    seed: int = 1,
    effort: int = 8,
    progress: bool | None = None,
    host_budget: Size | None = None,
    disk_budget: Size | None = None,
    disk_dir: str | os.PathLike[str] | None = None,
) -> Curve:
    """Predicted step time for each budget, down to the smallest for which a plan was found.

    Call it before `compile` to choose a budget. The arguments are those of `compile`; it raises
    SettingError, CaptureError, DiskError. Trains nothing and changes nothing.
    """
    asked_of = making(
        function, "100%", model=model, optimizer=optimizer, seed=seed, effort=effort,
        progress=progress, host_budget=host_budget, disk_budget=disk_budget, disk_dir=disk_dir,
    )  # fmt: skip
    args = arguments_of(asked_of.subject.function, example)
    with progress_line(progress) as show:
        return curve_of(Asked.of(asked_of, args, show))


def fits(function: Callable[..., Any], example: Any, budget: Budget | None, **options: Any) -> Fits:
    """Whether one step fits into a budget: `if fitstep.fits(train_step, (x, y), "8GiB"): ...`

    The arguments are those of `compile`, and the verdict is the one that `compile` would come to:
    it records the step, measures its operators and plans it, but trains nothing, changes nothing
    and holds nothing. The result says also what would be enough, which operators need most, and how
    long a step is predicted to take; `print` it.

    Raises SettingError, BudgetError, CaptureError, DiskError, as `compile`, and no BudgetTooSmall;
    FitstepError if an operator needs more memory than is free, so that it cannot be measured. It
    does not ask whether the whole budget is free now.
    """
    began = time.perf_counter()
    asked_of = _making(function, budget, options)
    args = arguments_of(asked_of.subject.function, example)
    with progress_line(asked_of.progress) as show:
        try:
            found = verdict(Asked.of(asked_of, args, show))
        except TooLarge as large:
            found = refused_by_size(large)
    return replace(found, seconds=time.perf_counter() - began)


def largest_batch(
    function: Callable[..., Any],
    make_example: Callable[[int], Any],
    budget: Budget,
    *,
    multiple_of: int = 1,
    most: int = 1 << 16,
    **options: Any,
) -> LargestBatch:
    """The largest batch that fits into a budget, found by planning and not by trying to train.

        found = fitstep.largest_batch(train_step, lambda n: (x[:n], y[:n]), "8GiB")
        loader = DataLoader(data, batch_size=int(found))

    `make_example(n)` returns the `example` of `compile` for n rows. Only batches that are a
    multiple of `multiple_of`, up to `most`, are tried. `budget` is a size; a share would grow with
    the batch. The other arguments are those of `compile`.

    Two or three batches are recorded and measured, as by `fits`. The planner decides about others
    by sizes on a straight line through measured ones. The answer itself is always measured, so
    `compile` with that batch and budget has a plan. For the next batch no plan was found: `above`
    says why, and `is_measured_above` whether it was measured, too. Because the planner may miss a
    plan, some still larger batch may fit. Trains nothing, changes nothing, holds nothing.

    Raises as `fits`, what `make_example` raises, and FitstepError if 24 measured batches do not
    decide, which happens only if the operators of the step change with the batch.
    """
    began = time.perf_counter()
    if not callable(make_example):
        raise SettingError("make_example", make_example, "a function of the number of rows")
    check_int("multiple_of", multiple_of, 1, 1 << 24)
    check_int("most", most, multiple_of, 1 << 24)
    asked_of = _making(function, budget, options)
    check_sizes(asked_of.settings)
    with progress_line(asked_of.progress) as show:
        units = most // multiple_of
        found = BatchSearch(asked_of, make_example, multiple_of, units, show).run()
    return replace(found, seconds=time.perf_counter() - began)
