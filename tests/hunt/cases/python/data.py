"""Steps whose operators, shapes or branches follow from the values of tensors."""

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from kit import add, case
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.utils import rnn
from worlds import Bench, batches, sgd, with_loss


def swallowed(b: Bench, loss: Tensor, x: Tensor) -> Tensor:
    try:
        scale = 2.0 if float(loss.detach()) > 0 else 1.0
    except Exception:
        scale = 1.0
    return loss * scale


def swallowed_everything(b: Bench, loss: Tensor, x: Tensor) -> Tensor:
    try:
        number = loss.item()
    except BaseException:
        number = 0.0
    return loss * (1 + number)


def versions(b: Bench, loss: Tensor, x: Tensor) -> Tensor:
    w = b.model[0].weight
    b.log.append(w._version)
    return loss * (1 + w._version - b.log[0])


def counted_parameters(b: Bench, loss: Tensor, x: Tensor) -> Tensor:
    kinds = [isinstance(p, nn.Parameter) and type(p) is nn.Parameter for p in b.model.parameters()]
    return loss * sum(kinds)


def facts(b: Bench, loss: Tensor, x: Tensor) -> Tensor:
    w = b.model[0].weight
    b.log.append((w.is_leaf, loss.is_leaf, loss.requires_grad, x.requires_grad, x.is_contiguous()))
    b.log.append((type(loss.grad_fn).__name__, w.grad_fn is None, loss.grad_fn is not None))
    b.log.append((x.device.type, x.dtype, x.stride(), x.storage_offset(), x.element_size()))
    return loss * sum(map(bool, b.log[-3]))


def is_meta_or_fake(b: Bench, loss: Tensor, x: Tensor) -> Tensor:
    known = ["Tensor", "Parameter"]
    odd = x.is_meta or type(loss).__name__ not in known or torch.compiler.is_compiling()
    odd = odd or torch.jit.is_tracing() or isinstance(loss, FakeTensor)
    return loss * (2 if odd else 1)


def greedy(b: Bench, loss: Tensor, x: Tensor) -> Tensor:
    state, tokens = x[:1], []
    while len(tokens) < 6:
        out = b.model(state)
        tokens.append(out.argmax().item())
        if tokens[-1] == 0:
            break
        state = state + 0.5 * tokens[-1]
    b.log.append(tokens)
    return loss * len(tokens)


DEPENDENT: dict[str, Any] = {
    "boolean_mask": lambda b, loss, x: loss + b.model(x)[x[:, 0] > 0].sum(),
    "boolean_mask_written": lambda b, loss, x: loss * _written(x),
    "nonzero": lambda b, loss, x: loss + b.model(x[(x[:, 0] > 0).nonzero()[:, 0]]).sum(),
    "nonzero_tuple": lambda b, loss, x: loss + x[torch.nonzero(x > 1, as_tuple=True)].sum() * loss,
    "where_with_one_argument": lambda b, loss, x: (
        loss + b.model(x[torch.where(x[:, 1] > 0)[0]]).sum()
    ),
    "masked_select": lambda b, loss, x: loss + b.model(x).masked_select(x[:, :4] > 0).sum(),
    "unique": lambda b, loss, x: loss * len(x.mul(2).round().unique()),
    "unique_counts": lambda b, loss, x: loss * torch.unique(x.round(), return_counts=True)[1].max(),
    "bincount": lambda b, loss, x: (
        loss * torch.bincount((x[0] > 0).long() * x.argmax(1)[0]).numel()
    ),
    "repeat_interleave": lambda b, loss, x: (
        loss + b.model(x.repeat_interleave((x[:, 0] > 0).long() + 1, 0)).mean()
    ),
    "split_by_counts": lambda b, loss, x: (
        loss + b.model(x.split([k := int((x[:, 0] > 0).sum()), 6 - k])[0]).sum()
    ),
    "argmax_rows": lambda b, loss, x: loss + b.model(x)[x.argmax(0)].mean(),
    "sorted_by_norm": lambda b, loss, x: loss + b.model(x[x.norm(dim=1).argsort()][:3]).sum(),
    "hard_examples": lambda b, loss, x: loss + b.model(x).square().sum(1).topk(3)[0].mean(),
    "where_branches": lambda b, loss, x: torch.where(loss > 1.4, loss * 2, loss.square()),
    "try_float": swallowed,
    "try_everything": swallowed_everything,
    "type_is_tensor": lambda b, loss, x: loss * (2.0 if type(x) is type(loss) is Tensor else 1.0),
    "parameters_counted": counted_parameters,
    "facts_about_tensors": facts,
    "versions": versions,
    "is_meta_or_fake": is_meta_or_fake,
    "greedy_decoding": greedy,
    "tolist_lookup": lambda b, loss, x: loss * sum({0: 1, 1: 2}[int(v > 0)] for v in x[0].tolist()),
    "tensor_as_index": lambda b, loss, x: loss * [1.0, 2.0, 3.0][(x[0] > 0).sum() % 3],
    "len_of_selection": lambda b, loss, x: loss / max(1, len(x[x > 1])),
    "data_pointer": lambda b, loss, x: loss * (2 if x.data_ptr() == x.view(-1).data_ptr() else 1),
    "dlpack": lambda b, loss, x: loss * torch.from_dlpack(x.detach()).mean().exp(),
    "storage_size": lambda b, loss, x: loss * x.untyped_storage().nbytes() / 192,
    "set_in_place": lambda b, loss, x: loss * torch.empty(0).set_(x.clone()).square().mean(),
    "new_tensor": lambda b, loss, x: loss * x.new_tensor([float(x.sum())]).abs().mean(),
    "tensor_iteration": lambda b, loss, x: loss + sum(b.model(r).max() for r in x if r[0] > 0),
    "isin": lambda b, loss, x: (
        loss * (1 + torch.isin(x.round(), torch.tensor([1.0, 2.0])).sum().item())
    ),
    "histogram": lambda b, loss, x: (
        loss * torch.histc(x, 4, -2, 2).tolist().index(max(torch.histc(x, 4, -2, 2).tolist()))
    ),
}
for label, change in DEPENDENT.items():
    add("data", f"data_{label}", with_loss(change))


def _written(x: Tensor) -> Tensor:
    x = x.clone()
    x[x > 1] = 0.5
    x[x < -1] *= 0.1
    return x.square().mean()


@case("data")
def data_sparse_experts() -> Any:
    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(8, 3)
            self.parts = nn.ModuleList(nn.Linear(8, 4) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            weight, which = self.gate(x).softmax(-1).max(-1)
            out = x.new_zeros(len(x), 4)
            for k, part in enumerate(self.parts):
                rows = (which == k).nonzero().flatten()
                if rows.numel() > 0:
                    out = out.index_add(0, rows, part(x[rows]) * weight[rows, None])
            return out

    b = Bench(Experts())
    return b.world(b.usual)


@case("data")
def data_packed_sequences() -> Any:
    b = Bench(nn.ModuleDict({"rnn": nn.LSTM(4, 6, batch_first=True), "out": nn.Linear(6, 4)}))

    def step(x: Tensor, lengths: Tensor, y: Tensor) -> Tensor:
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        _, (h, _) = b.model["rnn"](packed)
        out, sizes = rnn.pad_packed_sequence(b.model["rnn"](packed)[0], batch_first=True)
        b.log.append((tuple(out.shape), sizes.tolist()))
        return b.update(F.cross_entropy(b.model["out"](h[0]), y))

    lengths = [[5, 2, 3], [4, 5, 1], [5, 2, 3], [1, 1, 2], [4, 5, 1]]
    calls = [(torch.randn(3, 5, 4), torch.tensor(n), torch.tensor([0, 1, 2])) for n in lengths]
    return b.world(step, calls=calls)


@case("data")
def data_padded_lists() -> Any:
    b = Bench(nn.Linear(3, 4))

    def step(rows: list[Tensor], y: Tensor) -> Tensor:
        padded = rnn.pad_sequence(rows, batch_first=True)
        mask = torch.arange(padded.shape[1]) < torch.tensor([len(r) for r in rows])[:, None]
        out = (b.model(padded) * mask[..., None]).sum(1)
        return b.update(F.cross_entropy(out, y))

    calls = [
        ([torch.randn(k + 1, 3), torch.randn(4 - k, 3)], torch.tensor([0, k])) for k in range(4)
    ]
    return b.world(step, calls=calls)


@case("data")
def data_ctc_loss() -> Any:
    b = Bench(nn.Linear(4, 5))

    def step(x: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor) -> Tensor:
        return b.update(F.ctc_loss(b.model(x).log_softmax(-1), targets, lengths, sizes))

    def batch(k: int) -> Any:
        sizes = torch.tensor([2, 1 + k % 2])
        return torch.randn(6, 2, 4), torch.randint(1, 5, (2, 3)), torch.tensor([6, 5]), sizes

    return b.world(step, calls=[batch(k) for k in range(4)])


@case("data")
def data_adaptive_softmax() -> Any:
    model = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7])
    b = Bench(model)
    calls = [(x, torch.randint(12, (6,))) for x, _ in b.calls]
    return b.world(lambda x, y: b.update(b.model(x, y).loss), calls=calls)


@case("data")
def data_early_stop_of_an_inner_loop() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> int:
        old = b.model(x).detach().log_softmax(-1)
        for k in range(5):
            out = b.model(x).log_softmax(-1)
            if F.kl_div(out, old, log_target=True, reduction="batchmean") > 0.01:
                return k
            b.update(F.nll_loss(out, y))
        return 5

    return b.world(step)


@case("data")
def data_trains_until_converged() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> list[float]:
        losses = [b.usual(x, y).item()]
        while losses[-1] > losses[0] * 0.8 and len(losses) < 8:
            losses.append(b.usual(x, y).item())
        return losses

    return b.world(step)


@case("data")
def data_noise_of_an_inner_optimizer() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> float:
        noise = torch.zeros_like(x, requires_grad=True)
        inner = torch.optim.SGD([noise], 0.1)
        for _ in range(3):
            inner.zero_grad()
            (-F.cross_entropy(b.model(x + noise), y)).backward()
            inner.step()
        return b.usual(x + noise.detach(), y).item()

    return b.world(step)


@case("data")
def data_reptile() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> None:
        task = copy.deepcopy(b.model)
        inner = torch.optim.Adam(task.parameters(), 0.01)
        for _ in range(2):
            inner.zero_grad()
            F.cross_entropy(task(x), y).backward()
            inner.step()
        for p, q in zip(b.model.parameters(), task.parameters(), strict=True):
            p.grad = p.detach() - q.detach()
        b.opt.step()

    return b.world(step)


@case("data")
def data_loop_that_a_guess_never_ends() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> int:
        loss = b.usual(x, y)
        loss.item()
        labels, count = b.model(x).argmax(-1) + torch.arange(len(y)), 0
        while len(set(labels.tolist())) < 2:
            count += 1
        return count

    return b.world(step)


@case("data")
def data_loop_that_a_number_never_ends() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> int:
        loss = b.usual(x, y).detach()
        loss.item()
        count = 0
        while (loss - 1).abs() < 1e-9:
            loss, count = loss * 1, count + 1
        return count

    return b.world(step)


@case("data")
def data_loop_of_python_that_a_number_never_ends() -> Any:
    b = Bench(make=sgd)
    random.seed(3)

    def step(x: Tensor, y: Tensor) -> int:
        right = b.model(x).argmax(-1) == y
        b.usual(x, y)
        accuracy, count = right.float().mean().item(), 0
        while random.random() < accuracy:  # Nothing is below the one that compile makes up.
            count += 1
        return count

    return b.world(step)


@case("data")
def data_cuts_out_where_it_drew() -> Any:
    b = Bench(make=sgd)
    series = np.arange(400, dtype=np.float32).reshape(50, 8) / 400

    def step(x: Tensor, y: Tensor) -> float:
        b.usual(x, y)
        starts = torch.randint(len(series) - 6, (3,))
        rows = torch.cat([torch.from_numpy(series[i : i + 2]) for i in starts])
        return b.usual(rows, y).item()

    return b.world(step)


@case("data")
def data_reinforce_episode() -> Any:
    b = Bench(nn.Linear(8, 2))

    def step(start: Tensor) -> float:
        state, rewards, logs = start, [], []
        for _ in range(8):
            probs = b.model(state).softmax(-1)
            action = torch.multinomial(probs, 1).item()
            logs.append(probs[action].log())
            state = state + (0.3 if action else -0.3)
            rewards.append(float(-state.abs().mean()))
            if state.mean() > 1.2:
                break
        returns = torch.tensor([sum(rewards[i:]) for i in range(len(rewards))])
        returns = (returns - returns.mean()) / (returns.std() + 1e-6)
        b.update(-(torch.stack(logs) * returns).sum())
        return sum(rewards)

    return b.world(step, calls=[(x[0],) for x, _ in batches(5)])


@case("data")
def data_nearest_neighbours() -> Any:
    b = Bench(nn.Linear(8, 4))

    def step(x: Tensor, y: Tensor) -> int:
        out = b.model(x)
        distance = torch.cdist(out, out)
        same = y[:, None] == y[None]
        triplets = [
            (i, int(distance[i].masked_fill(~same[i], -1).argmax()), int(n))
            for i in range(len(x))
            for n in (~same[i]).nonzero().flatten()[:2]
        ]
        if triplets:
            a, p, n = torch.tensor(triplets).t()
            b.update(F.triplet_margin_loss(out[a], out[p], out[n]))
        return len(triplets)

    return b.world(step)


@case("data")
def data_nested_tensor() -> Any:
    b = Bench(nn.Linear(3, 4))

    def step(rows: list[Tensor]) -> Tensor:
        nested = torch.nested.nested_tensor(rows)
        return b.update(torch.nested.to_padded_tensor(b.model(nested), 0.0).square().mean())

    return b.world(step, calls=[([torch.randn(k + 1, 3), torch.randn(2, 3)],) for k in range(4)])


@case("data")
def data_hash_of_contents() -> Any:
    b, seen = Bench(), {}

    def step(x: Tensor, y: Tensor) -> Tensor:
        key = hash(tuple(x[0].tolist()))
        seen[key] = seen.get(key, 0) + 1
        return b.update(b.loss(x, y) * seen[key])

    one, two, *_ = b.calls
    return b.world(step, seen, calls=[one, two, one, one, two])
