"""State outside of torch and of the step: numpy, environment, files, threads, contexts, streams."""

from __future__ import annotations

import array
import contextlib
import contextvars
import ctypes
import io
import logging
import multiprocessing
import os
import pickle
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from kit import Do, case
from torch import Tensor
from worlds import Bench, adam


class RunningMeanStd:
    """As in CleanRL: statistics in numpy."""

    def __init__(self, in_place: bool) -> None:
        self.mean, self.var, self.count, self.in_place = np.zeros(8), np.ones(8), 1e-4, in_place

    def update(self, x: np.ndarray) -> None:
        delta, total = x.mean(0) - self.mean, self.count + len(x)
        var = (self.var * self.count + x.var(0) * len(x)) / total
        if self.in_place:
            self.mean += delta * len(x) / total
            self.var[:] = var
        else:
            self.mean, self.var = self.mean + delta * len(x) / total, var
        self.count = total

    def normalize(self, x: Tensor) -> Tensor:
        mean = torch.as_tensor(self.mean, dtype=torch.float32)
        return (x - mean) / torch.as_tensor(self.var, dtype=torch.float32).sqrt()


def numpy_statistics(in_place: bool, inside: bool) -> Any:
    b, rms = Bench(), RunningMeanStd(in_place)

    def step(x: Tensor, y: Tensor) -> Tensor:
        if inside:
            rms.update(x.numpy())
        return b.update(F.cross_entropy(b.model(rms.normalize(x)), y))

    calls: list[Any] = []
    for x, y in b.calls:
        calls += [(x, y)] if inside else [Do(lambda x=x: rms.update(x.numpy())), (x, y)]
    return b.world(step, rms, calls=calls)


@case("numpy")
def numpy_statistics_in_place_outside() -> Any:
    return numpy_statistics(in_place=True, inside=False)


@case("numpy")
def numpy_statistics_replaced_outside() -> Any:
    return numpy_statistics(in_place=False, inside=False)


@case("numpy")
def numpy_statistics_in_place_inside() -> Any:
    return numpy_statistics(in_place=True, inside=True)


@case("numpy")
def numpy_statistics_replaced_inside() -> Any:
    return numpy_statistics(in_place=False, inside=True)


@case("numpy")
def numpy_array_that_torch_shares() -> Any:
    b, weights = Bench(), np.ones(4, np.float32)
    shared = torch.from_numpy(weights)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(b.model(x), y, weight=shared)
        weights[int(y[0])] += 0.5
        return b.update(loss)

    calls = [*b.calls[:2], Do(lambda: weights.__imul__(0.5)), *b.calls[2:]]
    return b.world(step, weights, shared, calls=calls)


@case("numpy")
def numpy_of_an_activation() -> Any:
    b, seen = Bench(), np.zeros((2, 4))

    def step(x: Tensor, y: Tensor) -> float:
        out = b.model(x)
        probs = out.detach().softmax(1).numpy()
        seen[0] += probs.mean(0)
        seen[1] = np.maximum(seen[1], probs.max(0))
        b.update(F.cross_entropy(out, y, weight=torch.tensor(1 / (0.1 + seen[0])).float()))
        return float(probs[0, 0])

    return b.world(step, seen)


@case("numpy")
def numpy_function_of_a_tensor() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        spread = np.percentile(x, 90) + np.std(np.asarray(b.model(x).detach()))
        return b.update(loss * float(spread))

    return b.world(step)


@case("numpy")
def numpy_result_goes_back() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        order = np.argsort(b.model(x).detach().numpy()[:, 0])
        kept = torch.from_numpy(np.ascontiguousarray(order[:4]))
        return b.usual(x[kept], y[kept])

    return b.world(step)


@case("numpy")
def numpy_view_of_a_parameter() -> Any:
    b = Bench()
    view = b.model[0].weight.detach().numpy()
    return b.world(b.usual, view)


@case("numpy")
def numpy_view_of_a_parameter_read_inside() -> Any:
    b = Bench()
    view = b.model[0].weight.detach().numpy()

    def step(x: Tensor, y: Tensor) -> Tensor:
        b.log.append(float(np.abs(view).sum()))
        return b.usual(x, y)

    return b.world(step)


@case("numpy")
def hungarian_matching() -> Any:
    from scipy.optimize import linear_sum_assignment

    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        out = b.model(x)
        cost = torch.cdist(out, F.one_hot(y, 4).float())
        rows, columns = linear_sum_assignment(cost.detach().numpy())
        return b.update(cost[torch.as_tensor(rows), torch.as_tensor(columns)].mean())

    return b.world(step)


@case("environment")
def environment_variable() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(b.loss(x, y) * float(os.environ.get("SCALE", "1")))

    calls: list[Any] = []
    for k, batch in enumerate(b.calls):
        calls += [batch, Do(lambda k=k: os.environ.update(SCALE=str(k + 2)))]
    return b.world(step, calls=calls)


@case("environment")
def environment_written_in_the_step() -> Any:
    b = Bench()
    os.environ["COUNT"] = "0"

    def step(x: Tensor, y: Tensor) -> Tensor:
        os.environ["COUNT"] = str(int(os.environ["COUNT"]) + 1)
        return b.update(b.loss(x, y) * int(os.environ["COUNT"]))

    return step, b.calls, lambda: (b.model, b.opt, os.environ["COUNT"])


@case("environment")
def context_variable() -> Any:
    b, scale = Bench(), contextvars.ContextVar("scale", default=1.0)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.update(b.loss(x, y) * scale.get())
        scale.set(scale.get() * 0.5)
        return loss

    calls = [*b.calls[:3], Do(lambda: scale.set(3.0)), *b.calls[3:]]
    return step, calls, lambda: (b.model, b.opt, scale.get())


@case("environment")
def thread_local() -> Any:
    b, local = Bench(), threading.local()
    local.n = 1

    def step(x: Tensor, y: Tensor) -> Tensor:
        local.n += 1
        return b.update(b.loss(x, y) * local.n)

    return step, b.calls, lambda: (b.model, b.opt, local.n)


@case("environment")
def shared_memory_value() -> Any:
    b, value, lock = Bench(), multiprocessing.Value("d", 1.0), threading.Lock()

    def step(x: Tensor, y: Tensor) -> Tensor:
        with lock, value.get_lock():
            value.value += 0.5
        return b.update(b.loss(x, y) * value.value)

    return step, b.calls, lambda: (b.model, b.opt, value.value)


@case("environment")
def arrays_of_numbers() -> Any:
    b, weights, number = Bench(), array.array("d", [1.0] * 4), ctypes.c_int(0)
    view = memoryview(weights)

    def step(x: Tensor, y: Tensor) -> Tensor:
        number.value += 1
        view[number.value % 4] = number.value * 0.5
        return b.update(F.cross_entropy(b.model(x), y, weight=torch.tensor(weights).float()))

    calls = [*b.calls[:2], Do(lambda: weights.__setitem__(0, 3.0)), *b.calls[2:]]
    return step, calls, lambda: (b.model, b.opt, weights, number.value)


@case("output")
def prints_to_standard_output() -> Any:
    b = Bench()
    sys.stdout = b.text

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        print(f"loss {loss.item():.5f}", x.shape, flush=True)
        return loss

    return b.world(step)


@case("output")
def prints_tensors_every_second_step() -> Any:
    b, n = Bench(), [0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        n[0] += 1
        if n[0] % 2 == 0:
            print("step", n[0], loss.detach(), b.model[2].bias, file=b.text)
        return loss

    return b.world(step)


@case("output")
def redirected_output() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> str:
        caught = io.StringIO()
        with contextlib.redirect_stdout(caught):
            print("%.3f" % b.usual(x, y).item())  # noqa: UP031 - the form under test.
        return caught.getvalue()

    return b.world(step)


def logged(make: Any) -> Any:
    b = Bench()
    logger = make()
    logger.handlers = [logging.StreamHandler(b.text)]
    logger.setLevel(logging.INFO)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        logger.info("loss %.4f lr %g", loss.item(), b.opt.param_groups[0]["lr"])
        logger.debug("output %s", b.model(x)[0, 0])
        return loss

    return b.world(step)


@case("output")
def logs_by_a_named_logger() -> Any:
    return logged(lambda: logging.getLogger("hunt.train"))


@case("output")
def logs_by_a_logger_of_its_own() -> Any:
    return logged(lambda: logging.Logger("train"))


@case("output")
def logs_by_the_root_logger() -> Any:
    return logged(logging.getLogger)


@case("output")
def warns_in_the_step() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loss = b.usual(x, y)
            if loss.item() > 1.4:
                warnings.warn(f"high loss {loss.item():.3f}", stacklevel=1)
        return [str(w.message) for w in caught]

    return b.world(step)


@case("output")
def writes_and_reads_a_file() -> Any:
    b = Bench()
    path = Path(tempfile.mkdtemp()) / "losses.csv"

    def step(x: Tensor, y: Tensor) -> Tensor:
        known = len(path.read_text().splitlines()) if path.exists() else 0
        loss = b.update(b.loss(x, y) * (1 + known))
        with path.open("a") as file:
            file.write(f"{known},{loss.item()}\n")
        return loss

    return step, b.calls, lambda: (b.model, b.opt, path.read_text() if path.exists() else "")


@case("output")
def reads_text_written_before() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        b.text.write("x")
        return b.update(b.loss(x, y) * len(b.text.getvalue()))

    return b.world(step)


@case("output")
def saves_checkpoints_in_the_step() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        file = io.BytesIO()
        torch.save({"model": b.model.state_dict(), "opt": b.opt.state_dict()}, file)
        file.seek(0)
        b.log.append(torch.load(file)["model"]["0.bias"])
        b.log.append(pickle.loads(pickle.dumps(loss.detach())))
        return loss

    return b.world(step)


@case("output")
def reads_state_dicts_in_the_step() -> Any:
    b = Bench(make=adam)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        total = sum(v.abs().sum().item() for v in b.model.state_dict().values())
        moments = b.opt.state_dict()["state"]
        b.log.append((total, len(moments), moments[0]["exp_avg"].sum().item()))
        return loss

    return b.world(step)
