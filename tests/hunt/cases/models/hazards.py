"""Hazards of running operators later than Python calls them: shared memory, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from kit import Call, Do, case
from torch import Tensor
from worlds import Bench


@case("memory")
def memory_numpy_written_after_use() -> Any:
    b, weights = Bench(), np.ones(4, np.float32)
    shared = torch.from_numpy(weights)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(b.model(x), y, weight=shared)
        weights[1] += 0.5
        return b.update(loss)

    return b.world(step, weights)


@case("memory")
def memory_numpy_written_before_use() -> Any:
    b, weights = Bench(), np.ones(4, np.float32)
    shared = torch.from_numpy(weights)

    def step(x: Tensor, y: Tensor) -> Tensor:
        weights[1] += 0.5
        return b.update(F.cross_entropy(b.model(x), y, weight=shared))

    return b.world(step, weights)


@case("memory")
def memory_statistics_updated_after_use() -> Any:
    b, mean = Bench(), np.zeros(8, np.float32)

    def step(x: Tensor, y: Tensor) -> Tensor:
        centred = x - torch.as_tensor(mean)
        np.copyto(mean, 0.9 * mean + 0.1 * x.numpy().mean(0))
        return b.update(F.cross_entropy(b.model(centred), y))

    return b.world(step, mean)


@case("memory")
def memory_observation_reused_in_the_step() -> Any:
    b, observation = Bench(), np.zeros(8, np.float32)

    def step(x: Tensor, y: Tensor) -> Tensor:
        losses = []
        for k in range(3):
            observation[:] = x[k].numpy()
            losses.append(F.cross_entropy(b.model(torch.from_numpy(observation)), y[k]))
        return b.update(sum(losses))

    return b.world(step)


@case("memory")
def memory_bytearray_behind_a_tensor() -> Any:
    b, raw = Bench(), bytearray(np.ones(8, np.float32).tobytes())
    seen = torch.frombuffer(raw, dtype=torch.float32)

    def step(x: Tensor, y: Tensor) -> Tensor:
        hidden = x * seen
        raw[3] ^= 1
        return b.update(F.cross_entropy(b.model(hidden), y))

    return b.world(step, raw)


@case("memory")
def memory_of_an_argument_written_by_numpy() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        out = b.model(x)
        x.numpy()[:] = 0
        return b.update(F.cross_entropy(out, y) + b.model(x).mean())

    return b.world(step)


@case("memory")
def memory_of_a_result_written_by_numpy() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        mask = (x > 0).float()
        mask.numpy()[0] = 5.0
        return b.update(F.cross_entropy(b.model(x * mask), y))

    return b.world(step)


@case("memory")
def memory_rollout_buffer() -> Any:
    b, buffer, t = Bench(), torch.zeros(4, 6, 4), [0]

    def step(x: Tensor, y: Tensor) -> float:
        out = b.model(x)
        buffer[t[0] % 4] = out.detach()
        t[0] += 1
        running, total = 0.0, 0.0
        for k in reversed(range(4)):
            running = buffer[k].mean().item() + 0.9 * running
            total += running
        b.update(F.cross_entropy(out, y) * (1 + abs(total)))
        return total

    return b.world(step, buffer, t)


@case("memory")
def memory_of_results_changed_by_the_caller() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        out = b.model(x)
        b.log.append(out.detach())
        b.update(F.cross_entropy(out, y) + sum(o.mean() for o in b.log))
        return out.detach()

    change = Do(lambda: b.log[-1].mul_(2))
    one, two, three, four, _ = b.calls
    return b.world(step, calls=[one, change, two, change, three, four])


@case("error inside")
def error_cholesky_with_jitter() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> int:
        h = b.model(x)
        kernel, tries = h @ h.t(), 0
        while True:
            try:
                factor = torch.linalg.cholesky(kernel + 10.0 ** (tries - 9) * torch.eye(6))
                break
            except torch.linalg.LinAlgError:
                tries += 1
        b.update(factor.diagonal().log().square().mean())
        return tries

    return b.world(step)


@case("error inside")
def error_singular_matrix() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> str:
        h = b.model(x)[:4] * (x[0, 0] > 0)
        try:
            made, note = torch.linalg.inv(h), "inverted"
        except RuntimeError:
            made, note = torch.linalg.pinv(h.detach()) + h, "singular"
        b.update(made.square().mean())
        return note

    return b.world(step)


@case("error inside")
def error_label_out_of_range_is_skipped() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> str:
        try:
            loss = b.loss(x, y)
        except IndexError:
            return "skipped"
        b.update(loss)
        return "trained"

    one, (x, y), three, *_ = b.calls
    return b.world(step, calls=[one, (x, y + 9), three])


@case("error inside")
def error_of_a_distribution() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> str:
        try:
            torch.distributions.Normal(torch.zeros(6), x[:, 0], validate_args=True)
            note = "valid"
        except ValueError:
            note = "invalid"
        b.update(b.loss(x, y) * (2 if note == "valid" else 1))
        return note

    calls = [(x.abs() if k % 2 else x, y) for k, (x, y) in enumerate(b.calls)]
    return b.world(step, calls=calls)


@case("error inside")
def error_of_probabilities() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> str:
        try:
            which = torch.multinomial(x[0], 1).item()
        except RuntimeError:
            which = -1
        b.update(b.loss(x, y) * (which + 2))
        return str(which)

    calls = [(x.abs() if k % 2 else x, y) for k, (x, y) in enumerate(b.calls)]
    return b.world(step, calls=calls)


@case("error inside")
def error_of_a_change_in_place() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        hidden = b.model[:2](x)
        loss = F.cross_entropy(b.model[2](hidden), y)
        if y[0] == y[1]:
            hidden.mul_(2)
        return b.update(loss)

    calls = [(x, y.index_fill(0, torch.tensor([0, 1]), k)) for k, (x, y) in enumerate(b.calls[:1])]
    two = b.calls[1]
    clean = (two[0], torch.tensor([0, 1, 2, 3, 0, 1]))
    return b.world(step, calls=[clean, Call(*calls[0], raises=RuntimeError), clean])


@case("error inside")
def error_of_a_second_backward() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> str:
        loss = b.update(b.loss(x, y))
        try:
            loss.backward()
        except RuntimeError as error:
            return type(error).__name__
        return "none"

    return b.world(step)


@case("memory")
def unfilled_tensors_of_deterministic_algorithms() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        torch.use_deterministic_algorithms(True)
        try:
            small, whole = torch.empty(3, 4), torch.empty(40, 40, dtype=torch.int32)
            like = small.new_empty(70, 70)
            small[0], like[0] = 1, 2
            known = small.nan_to_num(0.5).sum() + like.nan_to_num(0.25).mean() + whole[1, 1] % 7
            return b.update(b.loss(x, y) * known)
        finally:
            torch.use_deterministic_algorithms(False)

    return b.world(step)
