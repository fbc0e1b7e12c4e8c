"""Steps that do almost the same in every call: another number, offset, order, alias or result."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from kit import add, case
from torch import Tensor, nn
from worlds import Bench, batches, sgd

# Each makes something of the model's output h (6, 4) and the number k of the call: 0, 1, 2, ...
VARIED: dict[str, Any] = {
    "row": lambda h, k: h[k % 3],
    "column_pair": lambda h, k: h[:, k % 3 : k % 3 + 2],
    "negative_index": lambda h, k: h[-1 - k % 2],
    "narrow": lambda h, k: h.narrow(0, k % 3, 2),
    "offset_of_as_strided": lambda h, k: h.as_strided((2, 2), (4, 1), k % 3),
    "step_of_slice": lambda h, k: h[:: 1 + k % 3],
    "roll": lambda h, k: h.roll(k, 0) * h,
    "diagonal": lambda h, k: h.diagonal(k % 3 - 1),
    "dimension": lambda h, k: h.softmax(k % 2).cumsum(1 - k % 2),
    "transposed_or_not": lambda h, k: (h.t() if k % 2 else h).reshape(-1)[:5],
    "permutation": lambda h, k: h.view(2, 3, 4).permute(*[(0, 1, 2), (2, 0, 1), (1, 2, 0)][k % 3]),
    "power": lambda h, k: h.abs() ** (0.5 + k),
    "integer_or_float": lambda h, k: h * [2, 2.0, True, 3][k % 4],
    "alpha": lambda h, k: torch.add(h, h.exp(), alpha=-0.1 * k),
    "clamp_bounds": lambda h, k: h.clamp(min=-0.1 * k) if k % 2 else h.clamp(max=0.1 * k),
    "clamp_none": lambda h, k: h.clamp(-1 if k % 2 else None, 0.1 + k),
    "dropout": lambda h, k: F.dropout(h, 0.1 + 0.2 * (k % 3)),
    "norm_order": lambda h, k: h.norm(1 + k % 3) + h.norm(1 + k % 3, dim=k % 2).sum(),
    "eps": lambda h, k: F.layer_norm(h, (4,), eps=10.0**-k),
    "negative_slope": lambda h, k: F.leaky_relu(h, 0.1 * k),
    "threshold": lambda h, k: F.threshold(h, 0.05 * k, -1.0 * k),
    "pad_value": lambda h, k: F.pad(h, (1, 1), value=float(k)),
    "pad_sizes": lambda h, k: F.pad(h, (k % 2, 1 - k % 2)),
    "full": lambda h, k: h * torch.full((4,), 0.5 + k),
    "arange_start": lambda h, k: h * torch.arange(k, k + 4),
    "linspace": lambda h, k: h * torch.linspace(0.1, 1 + k, 4),
    "tensor_of_numbers": lambda h, k: h * torch.tensor([1.0, k, 2.0, -k]),
    "tensor_of_integers": lambda h, k: h[torch.tensor([k % 6, 1])],
    "index_list": lambda h, k: h[[k % 6, (k + 2) % 6]],
    "mask_of_numbers": lambda h, k: h[torch.arange(6) > k % 3],
    "randint_high": lambda h, k: h * torch.randint(2 + k, (6, 4)),
    "scale_factor": lambda h, k: F.interpolate(h[None, None], scale_factor=1 + k % 2),
    "quantile": lambda h, k: h.quantile(0.1 + 0.2 * (k % 4)) + h,
    "kth_value": lambda h, k: h.kthvalue(1 + k % 3, 0).values,
    "topk": lambda h, k: h.topk(1 + k % 3).values,
    "chunks": lambda h, k: h.chunk(1 + k % 3)[0],
    "order_of_operators": lambda h, k: h.exp().sin() if k % 2 else h.sin().exp(),
    "order_of_operands": lambda h, k: (h - h.exp()) if k % 2 else (h.exp() - h),
    "rounding_mode": lambda h, k: h + torch.div(h, 0.3, rounding_mode=["floor", "trunc"][k % 2]),
    "reduction": lambda h, k: F.mse_loss(
        h, h.detach() + 1, reduction=["mean", "sum", "none"][k % 3]
    ),
    "dtype": lambda h, k: h.to([torch.float64, torch.bfloat16, torch.float32][k % 3]).float(),
    "descending": lambda h, k: h.sort(0, descending=k % 2 == 0).values * torch.arange(4),
    "keepdim": lambda h, k: h - h.mean(1, keepdim=True) if k % 2 else h - h.mean(0),
    "unbiased": lambda h, k: h.var(0, correction=k % 2),
    "detached": lambda h, k: (h.detach() if k % 2 else h) * h,
    "without_gradients": lambda h, k: h * _maybe_no_grad(h, k),
    "copied_or_not": lambda h, k: h + _written(h.detach().exp(), k),
    "alias_or_copy": lambda h, k: _aliased(h.clone(), k),
    "number_of_operators": lambda h, k: _repeated(h, k % 4),
    "nested_loops": lambda h, k: sum(
        h[i, j] * (i + j + k) for i in range(2) for j in range(k % 3 + 1)
    ),
    "attention_scale": lambda h, k: F.scaled_dot_product_attention(
        *[h.view(1, 2, 3, 4)] * 3, scale=0.1 + k
    ),
    "causal_or_not": lambda h, k: F.scaled_dot_product_attention(
        *[h.view(1, 2, 3, 4)] * 3, is_causal=k % 2 == 0
    ),
}


def _maybe_no_grad(h: Tensor, k: int) -> Tensor:
    with torch.set_grad_enabled(k % 2 == 0):
        return h.exp()


def _written(h: Tensor, k: int) -> Tensor:
    out = h.clone() if k % 2 else h
    out[0] += 1
    return out + h


def _aliased(h: Tensor, k: int) -> Tensor:
    other = h if k % 2 else h.clone()
    other.mul_(2)
    return h + other


def _repeated(h: Tensor, count: int) -> Tensor:
    for _ in range(count):
        h = h.tanh()
    return h


def _of(function: Any) -> Any:
    def build() -> Any:
        b, n = Bench(count=6), [-1]

        def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            n[0] += 1
            made = function(b.model(x), n[0])
            return b.update(made.float().square().mean()), made

        return b.world(step)

    return build


for label, function in VARIED.items():
    add("varied", f"varied_{label}", _of(function))


@case("varied")
def varied_tensor_out_of_a_list() -> Any:
    b, n = Bench(), [0]
    masks = [torch.rand(4).round() + 0.1 for _ in range(3)]

    def step(x: Tensor, y: Tensor) -> Tensor:
        n[0] += 1
        return b.update(F.cross_entropy(b.model(x) * masks[n[0] % 3], y))

    return b.world(step, masks, calls=batches(7))


@case("varied")
def varied_order_of_parameters() -> Any:
    b, n = Bench(nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4)]), make=sgd), [0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        n[0] += 1
        first, second, last = b.model if n[0] % 2 else [b.model[k] for k in (1, 0, 2)]
        return b.update(F.cross_entropy(last(second(first(x).tanh())), y))

    return b.world(step, calls=batches(6))


@case("varied")
def varied_tensors_changed_in_place() -> Any:
    b, n = Bench(), [0]
    totals = [torch.zeros(4), torch.zeros(4)]

    def step(x: Tensor, y: Tensor) -> Tensor:
        n[0] += 1
        out = b.model(x)
        totals[n[0] % 2].add_(out.detach().mean(0))
        return b.update(F.cross_entropy(out + totals[0] - totals[1], y))

    return b.world(step, totals, calls=batches(6))


@case("varied")
def varied_results_kept() -> Any:
    b, n = Bench(), [0]

    def step(x: Tensor, y: Tensor) -> Any:
        n[0] += 1
        out = b.model(x)
        loss = b.update(F.cross_entropy(out, y))
        if n[0] % 3 == 1:
            b.log.append(out.detach())
        return [loss, (loss, out), None, {"loss": loss}][n[0] % 4]

    return b.world(step, calls=batches(8))


@case("varied")
def varied_number_of_backwards() -> Any:
    b, n = Bench(make=sgd), [0]

    def step(x: Tensor, y: Tensor) -> int:
        n[0] += 1
        loss = b.loss(x, y)
        b.opt.zero_grad()
        for k in range(n[0] % 3 + 1):
            loss.backward(retain_graph=k < n[0] % 3)
        if n[0] % 2:
            b.opt.step()
        return n[0]

    return b.world(step, calls=batches(7))


@case("varied")
def varied_places_of_item() -> Any:
    b, n = Bench(), [0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        n[0] += 1
        out = b.model(x)
        if n[0] % 2:
            b.log.append(out.mean().item())
        loss = F.cross_entropy(out, y)
        if n[0] % 3 == 0:
            b.log.append(loss.item())
        b.update(loss)
        if n[0] % 4 == 0:
            b.log.append(b.model[0].weight.sum().item())
        return loss

    return b.world(step, calls=batches(9))


# Of the model's output h (6, 4), in a branch that compile does not see.
LATE: dict[str, Any] = {
    "attention_of_one_token": lambda h: F.scaled_dot_product_attention(
        *[h.view(3, 2, 1, 4)] * 3, is_causal=True
    ),
    "attention_with_dropout": lambda h: F.scaled_dot_product_attention(
        *[h.view(3, 1, 2, 4)] * 3, dropout_p=0.5
    ),
    "drawn_words": lambda h: h.softmax(1).multinomial(2) * h[:, :2],
    "dropout": F.dropout,
    "alpha_dropout": lambda h: F.alpha_dropout(h, training=True),
    "feature_dropout": lambda h: F.dropout2d(h.view(1, 6, 2, 2)),
    "noise": lambda h: h + torch.randn_like(h) + torch.rand(4),
    "order": lambda h: h[torch.randperm(6)] * torch.arange(6)[:, None],
    "coins": lambda h: h.sigmoid().bernoulli() * h,
    "gumbel": F.gumbel_softmax,
    "normal": lambda h: torch.normal(h.detach(), h.detach().abs()) * h,
    "poisson": lambda h: torch.poisson(h.detach().abs() * 4) * h,
    "binomial": lambda h: torch.binomial(torch.full((6, 4), 5.0), h.detach().sigmoid()) * h,
    "rrelu": lambda h: F.rrelu(h, training=True),
    "integers": lambda h: h * torch.randint(9, (4,)),
}


def _late(name: str) -> Any:
    def late() -> Any:
        b = Bench()

        def step(x: Tensor, y: Tensor) -> Tensor:
            loss = b.usual(x, y)
            if loss.item() != 1:  # Compile takes it for that.
                return b.update(LATE[name](b.model(x)).square().mean())
            return loss

        return b.world(step)

    late.__name__ = f"late_{name}"
    return late


for _name in LATE:
    case("varied")(_late(_name))
