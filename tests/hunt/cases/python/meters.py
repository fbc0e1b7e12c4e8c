"""Numbers that a step keeps from call to call: meters, running sums, best losses, guards."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from typing import Any

import torch
import torch.nn.functional as F
from kit import Call, Do, case
from torch import Tensor
from worlds import Bench, batches, sgd


class AverageMeter:
    """As in the ImageNet example of PyTorch."""

    def __init__(self) -> None:
        self.val, self.avg, self.sum, self.count = 0, 0, 0, 0

    def update(self, val: float, n: int = 1) -> None:
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


class Smoothed:
    """As in torchvision's references: a window of values, written with %."""

    def __init__(self, window: int = 3) -> None:
        self.deque: deque[float] = deque(maxlen=window)
        self.total, self.count = 0.0, 0

    def update(self, value: float) -> None:
        self.deque.append(value)
        self.count += 1
        self.total += value

    def __str__(self) -> str:
        values = torch.tensor(list(self.deque))
        return f"{values.median().item():.4f} ({self.total / self.count:.4f})"


class Bar:
    """A progress bar like tqdm's, that writes into a list."""

    def __init__(self) -> None:
        self.n, self.postfix, self.lines = 0, "", []

    def set_postfix(self, **values: float) -> None:
        self.postfix = ", ".join(f"{k}={v:.3g}" for k, v in values.items())

    def update(self, n: int = 1) -> None:
        self.n += n
        self.lines.append(f"{self.n}: {self.postfix}")


@case("meter")
def meter_average() -> Any:
    b, losses, top1 = Bench(), AverageMeter(), AverageMeter()

    def step(x: Tensor, y: Tensor) -> Tensor:
        out = b.model(x)
        loss = F.cross_entropy(out, y)
        losses.update(loss.item(), x.size(0))
        top1.update((out.argmax(1) == y).float().mean().item() * 100, x.size(0))
        return b.update(loss)

    return b.world(step, losses, top1)


@case("meter")
def meter_smoothed() -> Any:
    b, meters = Bench(), defaultdict(Smoothed)

    def step(x: Tensor, y: Tensor) -> str:
        loss = b.usual(x, y)
        meters["loss"].update(loss.item())
        meters["lr"].update(b.opt.param_groups[0]["lr"])
        return str(meters["loss"])

    return b.world(step, meters)


@case("meter")
def meter_progress_bar() -> Any:
    b, bar = Bench(), Bar()

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        bar.set_postfix(loss=loss.item(), norm=b.model[0].weight.norm().item())
        bar.update()
        return loss

    return b.world(step, bar)


@case("meter")
def meter_running_sum_reset_by_caller() -> Any:
    b, totals = Bench(), {"loss": 0.0, "seen": 0}

    def step(x: Tensor, y: Tensor) -> float:
        loss = b.usual(x, y)
        totals["loss"] += loss.item() * len(x)
        totals["seen"] += len(x)
        return totals["loss"] / totals["seen"]

    def reset() -> None:
        b.log.append(dict(totals))
        totals.update(loss=0.0, seen=0)

    return b.world(step, totals, calls=[*b.calls[:2], Do(reset), *b.calls[2:]])


@case("meter")
def meter_of_tensors() -> Any:
    b = Bench()
    total = [torch.zeros(())]

    def step(x: Tensor, y: Tensor) -> None:
        loss = b.usual(x, y)
        total[0] = total[0] + loss.detach()

    return b.world(step, total)


@case("meter")
def meter_tensor_in_place() -> Any:
    b, total, count = Bench(), torch.zeros(()), torch.zeros((), dtype=torch.long)

    def step(x: Tensor, y: Tensor) -> None:
        total.add_(b.usual(x, y).detach())
        count.add_(len(x))

    return b.world(step, total, count)


@case("meter")
def meter_confusion_matrix() -> Any:
    b, matrix = Bench(), torch.zeros(4, 4, dtype=torch.long)

    def step(x: Tensor, y: Tensor) -> Tensor:
        out = b.model(x)
        for truth, guess in zip(y.tolist(), out.argmax(1).tolist(), strict=True):
            matrix[truth, guess] += 1
        return b.update(F.cross_entropy(out, y))

    return b.world(step, matrix)


@case("meter")
def meter_exponential_average() -> Any:
    b = Bench()
    ema: dict[str, float | None] = {"loss": None}

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        old = ema["loss"]
        ema["loss"] = loss.item() if old is None else 0.9 * old + 0.1 * loss.item()
        return b.update(loss / ema["loss"])

    return b.world(step, ema)


@case("meter")
def meter_best_loss_and_patience() -> Any:
    b = Bench(make=sgd)
    seen = {"best": math.inf, "bad": 0, "stop": False}

    def step(x: Tensor, y: Tensor) -> bool:
        loss = b.usual(x, y).item()
        if loss < seen["best"]:
            seen.update(best=loss, bad=0)
        else:
            seen["bad"] += 1
            if seen["bad"] >= 2:
                seen["stop"] = True
                b.opt.param_groups[0]["lr"] *= 0.5
        return seen["stop"]

    return b.world(step, seen)


@case("meter")
def meter_best_weights_kept() -> Any:
    b = Bench(make=sgd)
    best: dict[str, Any] = {"loss": math.inf, "weights": None}

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        if loss.item() < best["loss"]:
            best["loss"] = loss.item()
            best["weights"] = {k: v.clone() for k, v in b.model.state_dict().items()}
        return b.update(loss)

    return b.world(step, best)


@case("meter")
def meter_history_of_losses() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> float:
        loss = b.usual(x, y)
        b.log.append(loss.item())
        return sum(b.log[-3:]) / len(b.log[-3:])

    return b.world(step)


@case("meter")
def meter_history_of_detached_tensors() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        b.log.append(b.usual(x, y).detach())
        return torch.stack(b.log).mean()

    return b.world(step)


@case("meter")
def meter_counter_of_guesses() -> Any:
    b = Bench()
    guesses: Counter[int] = Counter()

    def step(x: Tensor, y: Tensor) -> Tensor:
        guesses.update(b.model(x).argmax(1).tolist())
        weight = torch.tensor([1.0 / (1 + guesses[i]) for i in range(4)])
        return b.update(F.cross_entropy(b.model(x), y, weight=weight))

    return b.world(step, guesses)


def with_a_bad_batch(value: float) -> list[Any]:
    """Five batches of which the third holds a value that spoils the loss."""
    calls = batches()
    calls[2][0][0, 0] = value
    return calls


@case("guard")
def guard_skips_nan_batch() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> bool:
        loss = b.loss(x, y)
        if not math.isfinite(loss.item()):
            b.log.append("skipped")
            return False
        b.update(loss)
        return True

    return b.world(step, calls=with_a_bad_batch(math.nan))


@case("guard")
def guard_raises_for_nan_batch() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        if torch.isnan(loss):
            raise RuntimeError("loss is NaN")
        return b.update(loss)

    calls = with_a_bad_batch(math.nan)
    calls[2] = Call(*calls[2], raises=RuntimeError)
    return b.world(step, calls=calls)


@case("guard")
def guard_exits_for_nan_batch() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        if not math.isfinite(loss.item()):
            raise SystemExit("Loss is nan, stopping training")
        return b.update(loss)

    calls = with_a_bad_batch(math.nan)
    calls[2] = Call(*calls[2], raises=SystemExit)
    return b.world(step, calls=calls)


@case("guard")
def guard_skips_step_by_gradient_norm() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> float:
        b.opt.zero_grad()
        b.loss(x, y).backward()
        norm = torch.nn.utils.clip_grad_norm_(b.model.parameters(), 1e9)
        if torch.isfinite(norm) and norm < 50:
            b.opt.step()
        else:
            b.log.append(len(b.log))
        return norm.item()

    return b.world(step, calls=with_a_bad_batch(1e4))


@case("guard")
def guard_of_spikes() -> Any:
    b = Bench(make=sgd)
    recent: deque[float] = deque(maxlen=4)

    def step(x: Tensor, y: Tensor) -> str:
        loss = b.loss(x, y)
        value = loss.item()
        if recent and value > 1.5 * sum(recent) / len(recent):
            return "spike"
        recent.append(value)
        b.update(loss)
        return "trained"

    return b.world(step, recent, calls=with_a_bad_batch(40.0))


@case("guard")
def guard_nan_to_num() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(F.cross_entropy(b.model(torch.nan_to_num(x)), y))

    return b.world(step, calls=with_a_bad_batch(math.inf))


@case("guard")
def loss_scale_by_hand() -> Any:
    b = Bench(make=sgd)
    scale = {"value": 1024.0, "good": 0}

    def step(x: Tensor, y: Tensor) -> float:
        b.opt.zero_grad()
        (b.loss(x, y) * scale["value"]).backward()
        grads = [p.grad for p in b.model.parameters()]
        if all(torch.isfinite(g).all() for g in grads):
            for g in grads:
                g.div_(scale["value"])
            b.opt.step()
            scale["good"] += 1
            if scale["good"] % 2 == 0:
                scale["value"] *= 2
        else:
            scale.update(value=scale["value"] / 2, good=0)
        return scale["value"]

    return b.world(step, scale, calls=with_a_bad_batch(math.inf))


@case("guard")
def assertion_on_tensors() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        assert x.abs().max() < 100, "too large"
        assert torch.isfinite(x).all()
        return b.usual(x, y)

    calls = with_a_bad_batch(1e3)
    calls[2] = Call(*calls[2], raises=AssertionError)
    return b.world(step, calls=calls)
