"""Schedulers of torch inside and outside the step, gradient scalers, autocast."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.nn.functional as F
from kit import Call, Do, add, case
from torch import Tensor, nn
from torch.optim import lr_scheduler as schedules
from worlds import Bench, batches, mlp, sgd

SCHEDULERS: dict[str, Any] = {
    "step": lambda o: schedules.StepLR(o, 2, gamma=0.5),
    "multi_step": lambda o: schedules.MultiStepLR(o, [1, 3], gamma=0.5),
    "exponential": lambda o: schedules.ExponentialLR(o, 0.7),
    "cosine": lambda o: schedules.CosineAnnealingLR(o, 4),
    "restarts": lambda o: schedules.CosineAnnealingWarmRestarts(o, 2),
    "polynomial": lambda o: schedules.PolynomialLR(o, 4, power=2.0),
    "linear": lambda o: schedules.LinearLR(o, 0.1, total_iters=3),
    "constant": lambda o: schedules.ConstantLR(o, 0.5, total_iters=2),
    "lambda": lambda o: schedules.LambdaLR(o, lambda i: 1 / (1 + i)),
    "multiplicative": lambda o: schedules.MultiplicativeLR(o, lambda i: 0.9 if i % 2 else 0.8),
    "one_cycle": lambda o: schedules.OneCycleLR(o, max_lr=0.2, total_steps=8),
    "cyclic": lambda o: schedules.CyclicLR(o, 0.01, 0.2, step_size_up=2),
    "sequential": lambda o: schedules.SequentialLR(
        o, [schedules.LinearLR(o, 0.1, total_iters=2), schedules.ExponentialLR(o, 0.5)], [2]
    ),
    "chained": lambda o: schedules.ChainedScheduler(
        [schedules.LinearLR(o, 0.1, total_iters=2), schedules.ExponentialLR(o, 0.5)]
    ),
    "swa": lambda o: torch.optim.swa_utils.SWALR(o, swa_lr=0.01, anneal_epochs=3),
}


def scheduled(make: Any, inside: bool) -> Any:
    def build() -> Any:
        b = Bench(make=sgd)
        schedule = make(b.opt)

        def step(x: Tensor, y: Tensor) -> Any:
            loss = b.usual(x, y)
            if not inside:
                return loss
            schedule.step()
            return loss, schedule.get_last_lr()[0]

        calls: list[Any] = []
        for batch in b.calls:
            calls += [batch] if inside else [batch, Do(schedule.step)]
        return b.world(step, schedule, calls=calls)

    return build


for label, make in SCHEDULERS.items():
    add("scheduler", f"scheduler_{label}_inside", scheduled(make, inside=True))
    add("scheduler", f"scheduler_{label}_outside", scheduled(make, inside=False))


def plateau(inside: bool) -> Any:
    def build() -> Any:
        b = Bench(make=sgd)
        schedule = schedules.ReduceLROnPlateau(b.opt, factor=0.5, patience=0, threshold=0.5)

        def step(x: Tensor, y: Tensor) -> Tensor:
            loss = b.usual(x, y)
            if inside:
                schedule.step(loss.item())
            b.log.append(loss.item())
            return loss

        calls: list[Any] = []
        for batch in b.calls:
            calls += [batch] if inside else [batch, Do(lambda: schedule.step(b.log[-1]))]
        return b.world(step, schedule, calls=calls)

    return build


add("scheduler", "scheduler_plateau_inside", plateau(inside=True))
add("scheduler", "scheduler_plateau_outside", plateau(inside=False))


@case("scheduler")
def scheduler_with_adam_tensor_lr() -> Any:
    def make(ps: Any) -> Any:
        return torch.optim.Adam(ps, lr=torch.tensor(0.1), foreach=False)

    b = Bench(make=make)
    schedule = schedules.ExponentialLR(b.opt, 0.5)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        schedule.step()
        return loss

    return b.world(step, schedule)


@case("scheduler")
def scheduler_made_in_mid_training() -> Any:
    b = Bench(make=sgd)
    made: list[Any] = []

    def make() -> None:
        made.append(schedules.ExponentialLR(b.opt, 0.5))

    one, two, three, four, five = b.calls
    advance = Do(lambda: made[0].step())
    calls = [one, two, Do(make), three, advance, four, advance, five]
    return b.world(b.usual, made, calls=calls)


def scaled(spoiled: bool = False, clip: bool = False, **options: Any) -> Any:
    def build() -> Any:
        b = Bench(make=sgd)
        scaler = torch.amp.GradScaler("cpu", growth_interval=2, **options)

        def step(x: Tensor, y: Tensor) -> float:
            b.opt.zero_grad()
            scaler.scale(b.loss(x, y)).backward()
            if clip:
                scaler.unscale_(b.opt)
                torch.nn.utils.clip_grad_norm_(b.model.parameters(), 0.5)
            scaler.step(b.opt)
            scaler.update()
            return scaler.get_scale()

        calls = batches()
        if spoiled:
            calls[1][0][0] = float("inf")
        return b.world(step, scaler, calls=calls)

    return build


add("scaler", "scaler_disabled", scaled(enabled=False))
add("scaler", "scaler_enabled", scaled(init_scale=256.0))
add("scaler", "scaler_overflow", scaled(spoiled=True, init_scale=256.0))
add("scaler", "scaler_clip", scaled(clip=True, init_scale=256.0))
add("scaler", "scaler_clip_and_overflow", scaled(spoiled=True, clip=True, init_scale=64.0))


@case("scaler")
def scaler_within_reach_only() -> Any:
    b = Bench()
    b.scaler = torch.amp.GradScaler("cpu")
    return b.world(b.usual, b.scaler)


@case("scaler")
def scaler_with_fused_adam_and_autocast() -> Any:
    b = Bench(make=lambda ps: torch.optim.AdamW(ps, lr=0.01, fused=True))
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)

    def step(x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.float16):
            loss = b.loss(x, y)
        b.opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(b.opt)
        scaler.update()
        return loss

    return b.world(step, scaler)


def cast(context: Any) -> Any:
    """A case whose forward pass runs in `context()`."""

    def build() -> Any:
        b = Bench()
        enter = context()

        def step(x: Tensor, y: Tensor) -> Tensor:
            with enter():
                out = b.model(x)
                loss = F.cross_entropy(out, y)
            b.log.append(str(out.dtype))
            return b.update(loss)

        return b.world(step)

    return build


def each_call(**options: Any) -> Any:
    return lambda: lambda: torch.autocast("cpu", **options)


def made_once() -> Any:
    context = torch.autocast("cpu", torch.bfloat16)
    return lambda: context


add("autocast", "autocast_made_once", cast(made_once))
add("autocast", "autocast_made_each_call", cast(each_call(dtype=torch.bfloat16)))
add("autocast", "autocast_half", cast(each_call(dtype=torch.float16)))
add("autocast", "autocast_disabled", cast(each_call(enabled=False)))
add("autocast", "autocast_without_cache", cast(each_call(cache_enabled=False)))
add("autocast", "autocast_null_context", cast(lambda: contextlib.nullcontext))


@case("autocast")
def autocast_decorator() -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 4)

        @torch.autocast("cpu", torch.bfloat16)
        def forward(self, x: Tensor) -> Tensor:
            return self.fc(x)

    b = Bench(Net())
    return b.world(b.usual)


@case("autocast")
def autocast_with_a_region_in_full() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            out = b.model(x)
            with torch.autocast("cpu", enabled=False):
                loss = F.cross_entropy(out.float(), y)
        return b.update(loss)

    return b.world(step)


@case("autocast")
def autocast_backward_inside() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return b.usual(x, y)

    return b.world(step)


@case("autocast")
def autocast_around_the_call() -> Any:
    b = Bench()
    stack = contextlib.ExitStack()
    enter = Do(lambda: stack.enter_context(torch.autocast("cpu", torch.bfloat16)))
    one, two, three, four, five = b.calls
    return b.world(b.usual, calls=[one, enter, two, three, Do(stack.close), four, five])


@case("autocast")
def autocast_switched_by_flag() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor, use: bool) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=use):
            loss = b.loss(x, y)
        return b.update(loss)

    calls = [(*batch, k % 2 == 0) for k, batch in enumerate(b.calls)]
    return b.world(step, calls=calls)


@case("autocast")
def bfloat16_model_with_master_weights() -> Any:
    b = Bench(mlp().bfloat16())
    masters = [p.detach().float() for p in b.model.parameters()]
    b.opt = torch.optim.SGD(masters, lr=0.1, momentum=0.9)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(b.model(x.bfloat16()).float(), y)
        loss.backward()
        for m, p in zip(masters, b.model.parameters(), strict=True):
            m.grad, p.grad = p.grad.float(), None
        b.opt.step()
        with torch.no_grad():
            for m, p in zip(masters, b.model.parameters(), strict=True):
                p.copy_(m)
        return loss

    return b.world(step, masters)


@case("mode")
def default_dtype_changed_between_calls() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(b.loss(x, y) * torch.tensor(0.1))

    change = Do(lambda: torch.set_default_dtype(torch.float64))
    return b.world(step, calls=[*b.calls[:2], change, *b.calls[2:]])


@case("mode")
def gradients_switched_off_around_a_call() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        return b.update(loss) if torch.is_grad_enabled() else loss

    off, on = Do(lambda: torch.set_grad_enabled(False)), Do(lambda: torch.set_grad_enabled(True))
    one, two, three, four, five = b.calls
    return b.world(step, calls=[one, two, off, three, on, four, five])


@case("mode")
def evaluation_and_training_in_one_step() -> Any:
    b = Bench(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 4)))

    def step(x: Tensor, y: Tensor) -> tuple[Tensor, float]:
        b.model.train()
        loss = b.usual(x, y)
        b.model.eval()
        with torch.no_grad():
            return loss, (b.model(x).argmax(1) == y).float().mean().item()

    return b.world(step)


@case("mode")
def training_and_evaluation_by_the_caller() -> Any:
    b = Bench(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 4)))

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.usual(x, y) if b.model.training else b.loss(x, y).detach()

    one, two, three, four, five = b.calls
    to_eval, to_train = Do(lambda: b.model.eval()), Do(lambda: b.model.train())
    return b.world(step, calls=[one, two, to_eval, three, to_train, four, five])


@case("mode")
def forward_only_functions() -> Any:
    b = Bench(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)))

    @torch.no_grad()
    def evaluate(x: Tensor, y: Tensor) -> tuple[Tensor, int]:
        out = b.model(x)
        return F.cross_entropy(out, y), int((out.argmax(1) == y).sum())

    def infer(x: Tensor, y: Tensor) -> Tensor:
        with torch.inference_mode():
            return b.model(x)

    one, two, three, four, five = b.calls
    calls = [Call(*one), Call(*one, which=1), Call(*two), Call(*three, which=2), Call(*four)]
    return [b.usual, evaluate, infer], [*calls, Call(*five, which=1)], b.probe()
