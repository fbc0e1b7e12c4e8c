"""Arrays that share memory with parameters, buffers, gradients and arguments; kernels that raise
and draw by themselves."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from cases.python.hidden import Holder, counting
from kit import Call, Do, case
from torch import Tensor, nn
from worlds import Bench, batches, sgd


@case("array")
def array_of_a_weight_made_in_the_step() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        w = b.model[0].weight.detach().numpy()
        before = w.copy()
        loss = b.usual(x, y)
        b.log.append(float(np.abs(w - before).sum()))
        return loss

    return b.world(step)


@case("array")
def array_of_a_gradient_before_clipping() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> None:
        b.opt.zero_grad()
        b.loss(x, y).backward()
        g = b.model[0].weight.grad.numpy()
        nn.utils.clip_grad_norm_(b.model.parameters(), 0.01)
        b.opt.step()
        b.log.append(float(np.abs(g).sum()))

    return b.world(step)


@case("array", keep_grads=True)
def array_of_a_gradient_kept_between_calls() -> Any:
    b, kept = Bench(), []
    calls: list[Any] = []
    for call in b.calls:
        calls += [call, Do(lambda: kept.append(b.model[0].weight.grad.numpy()))]
    return b.world(b.usual, kept, calls=calls)


@case("array", keep_grads=True)
def array_of_a_gradient_used_at_once() -> Any:
    b = Bench()
    calls: list[Any] = []
    for call in b.calls:
        calls += [call, Do(lambda: b.log.append(np.abs(b.model[0].weight.grad.numpy()).sum()))]
    return b.world(b.usual, calls=calls)


@case("array")
def array_of_a_weight_and_a_larger_batch() -> Any:
    b, seen = Bench(make=sgd), []
    large = batches(1, rows=900)[0]
    calls = [b.calls[0], Do(lambda: seen.append(b.model[0].weight.detach().numpy())), large]
    return b.world(b.usual, seen, calls=[*calls, *b.calls[1:3]])


@case("array")
def array_of_a_buffer_that_is_written_late() -> Any:
    b, warm = Bench(), [True]
    b.model.register_buffer("center", torch.zeros(4))
    array = b.model.center.numpy()

    def step(x: Tensor, y: Tensor) -> Tensor:
        out = b.model(x)
        if not warm[0]:
            with torch.no_grad():
                b.model.center.mul_(0.9).add_(out.detach().mean(0), alpha=0.1)
            out = out - b.model.center
        return b.update(F.cross_entropy(out, y))

    calls = [*b.calls[:3], Do(lambda: warm.__setitem__(0, False)), *b.calls[3:]]
    return b.world(step, array, calls=calls)


@case("array")
def array_by_dlpack_of_a_buffer() -> Any:
    b = Bench(nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)))
    return b.world(b.usual, np.from_dlpack(b.model[1].running_mean))


@case("array")
def array_by_dlpack_made_in_the_step() -> Any:
    b = Bench(nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)), make=sgd)

    def step(x: Tensor, y: Tensor) -> Tensor:
        mean = np.from_dlpack(b.model[1].running_mean)
        before = mean.copy()
        loss = b.usual(x, y)
        b.log.append(float(np.abs(mean - before).sum()))
        return loss

    return b.world(step)


@case("array")
def array_over_an_argument_filled_behind_its_use() -> Any:
    b, x = Bench(make=sgd), torch.zeros(6, 8)
    ring, n = x.numpy(), [0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        n[0] += 1
        loss = b.loss(x, y)
        ring[n[0] % 6] = n[0]
        return b.update(loss)

    return b.world(step, x, calls=[(x, y) for _, y in b.calls])


@case("array")
def array_over_a_weight_read_behind_the_update() -> Any:
    b = Bench()
    w = b.model[0].weight.detach().numpy()

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        b.log.append(float(w.sum()))
        return loss

    return b.world(step)


@case("array")
def array_over_a_weight_clipped_behind_the_update() -> Any:
    b = Bench(make=sgd)
    w = b.model[0].weight.detach().numpy()

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        np.clip(w, -0.2, 0.2, out=w)
        return loss

    return b.world(step)


@case("array")
def array_over_a_weight_written_before_its_use_runs() -> Any:
    b, array = Bench(make=sgd), []

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        for one in array:
            one *= 0.5
        return b.update(loss)

    take = Do(lambda: array.append(b.model[2].weight.detach().numpy()))
    return b.world(step, calls=[*b.calls[:2], take, *b.calls[2:]])


@case("array")
def metrics_in_numpy_in_the_step() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        out = b.model(x)
        b.log.append(float((out.detach().argmax(1).numpy() == y.numpy()).mean()))
        return b.update(F.cross_entropy(out, y))

    return b.world(step)


@torch.library.custom_op("fitstep_hunt::noisy", mutates_args=())
def noisy(x: Tensor) -> Tensor:
    """Draws from generators that no schema knows of."""
    return x + torch.randn_like(x) * float(np.random.rand())  # noqa: NPY002


@noisy.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


@case("array")
def kernel_that_draws_by_itself() -> Any:
    b = Bench()
    return b.world(lambda x, y: b.usual(noisy(x), y))


@case("array")
def kernel_that_raises_with_a_number_that_changes() -> Any:
    b, table, n = Bench(make=sgd), torch.zeros(10, 8), [0]

    def step(x: Tensor, y: Tensor, rows: Tensor) -> Tensor:
        n[0] += 1
        moved = table.index_add(0, rows, x, alpha=-0.1 / n[0])
        return b.update(b.loss(x, y) + moved.square().mean())

    one, two, (x, y), four, five = b.calls
    bad = Call(x, y, y + torch.tensor([0, 0, 0, 0, 0, 60]), raises=IndexError)
    good = [(x, y, y) for x, y in (one, two, four, five)]
    return b.world(step, table, calls=[*good[:2], bad, *good[2:]])


@case("array")
def out_of_another_batch_size() -> Any:
    b, buffer = Bench(make=sgd), torch.empty(6, 8)

    def step(x: Tensor, y: Tensor) -> Tensor:
        torch.mul(x, 2, out=buffer)
        return b.usual(buffer, y)

    (x, y), two, *_ = b.calls
    return b.world(step, calls=[(x, y), two, (x[:4], y[:4]), two])


@case("array")
def array_of_a_weight_written_in_the_step() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> Tensor:
        w = b.model[0].weight.detach().numpy()
        w *= 0.9
        return b.usual(x, y)

    return b.world(step)


@case("array")
def pointer_of_a_weight_read_behind_the_update() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        at = b.model[0].weight.data_ptr()
        b.log.append((ctypes.c_float * 4).from_address(at)[:])
        return loss

    return b.world(step)


@case("array")
def twin_by_dlpack_trained_on() -> Any:
    b, a = Bench(make=sgd), torch.zeros(6, 8)
    twin = torch.from_dlpack(torch.utils.dlpack.to_dlpack(a))

    def step(x: Tensor, y: Tensor) -> Tensor:
        a.copy_(x)
        return b.usual(twin, y)

    return b.world(step, a)


@torch.library.custom_op("fitstep_hunt::numpy_sine", mutates_args=())
def numpy_sine(x: Tensor) -> Tensor:
    """As in PyTorch's tutorial."""
    return torch.from_numpy(np.sin(x.numpy()))


@numpy_sine.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


@case("array")
def kernel_in_numpy() -> Any:
    b = Bench()
    return b.world(lambda x, y: b.usual(numpy_sine(x), y))


@case("array")
def seeded_between_two_draws() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        x = x + torch.randn(6, 8)
        torch.manual_seed(0)
        return b.usual(x + torch.randn(6, 8), y)

    return b.world(step)


@case("array")
def weights_read_by_a_thread_that_the_step_starts() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        saver = threading.Thread(target=lambda: b.log.append(b.model[0].weight.detach().clone()))
        saver.start()
        saver.join()
        return loss

    return b.world(step)


@counting
def an_array_that_grows_in_place() -> Any:
    counts = np.zeros(1)

    def count() -> int:
        counts.resize(len(counts) + 1, refcheck=False)
        counts[-1] = len(counts)
        return len(counts) - 1

    return count, counts


@counting
def an_array_that_is_turned_in_place() -> Any:
    counts = np.zeros((2, 3))

    def count() -> int:
        counts.shape = counts.shape[::-1]
        counts[0, 0] += 1
        return int(counts[0, 0]) + counts.shape[0]

    return count, counts


@counting
def seeds_that_are_spawned() -> Any:
    seeds = np.random.SeedSequence(3)
    return lambda: len(seeds.spawn(1)) * seeds.n_children_spawned, Holder()


@counting
def generators_that_are_spawned() -> Any:
    own = np.random.default_rng(3)
    return lambda: own.spawn(1)[0].bit_generator.seed_seq.spawn_key[0] + 1, Holder()


@case("array")
def view_of_an_array_is_kept_from_call_to_call() -> Any:
    b = Bench(count=9)
    means, shown = torch.zeros(6, 4), []

    def step(x: Tensor, y: Tensor) -> Any:
        means.mul_(0.5).add_(b.model(x).detach())
        array = means.numpy()
        if len(b.log) in (1, 4):
            shown.append(array[1:3])
        means[0].add_(1.0)
        b.log.append(float(array.sum()) + sum(float(one.sum()) for one in shown))
        if len(shown) == 2 and len(b.log) > 6:
            shown.pop(0)
        loss = b.usual(x, y)
        means[2].sub_(loss.detach())
        return loss, [one.copy() for one in shown]

    return b.world(step, means, shown)


@case("array")
def array_and_pointer_and_capsule_of_one_buffer() -> Any:
    b = Bench(count=8)
    sums, kept = torch.zeros(8), []

    def step(x: Tensor, y: Tensor) -> Any:
        sums.add_(x.sum(0))
        total = float(sums.numpy().sum())
        if len(b.log) == 2:
            kept.append(np.from_dlpack(sums))
        if len(b.log) == 5:
            kept.clear()
        sums.mul_(0.9)
        b.log.append(total + sum(float(one[0]) for one in kept))
        return b.usual(x, y * 1)

    return b.world(step, sums)
