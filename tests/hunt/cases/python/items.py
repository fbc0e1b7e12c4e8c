"""Numbers from tensors: `.item()` in the forms in which people use it."""

from __future__ import annotations

import decimal
import fractions
import json
import math
import operator
import statistics
import struct
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from kit import add, case
from torch import Tensor
from worlds import Bench, stepping, with_loss


def mean(x: Tensor) -> float:
    return x.abs().mean().item()


def positives(x: Tensor) -> int:
    return (x > 0).sum().item()


# Each makes the loss that is trained on from the loss and the batch.
ARITHMETIC: dict[str, Any] = {
    "times": lambda b, loss, x: loss * mean(x),
    "times_from_left": lambda b, loss, x: mean(x) * loss,
    "divided": lambda b, loss, x: loss / positives(x),
    "plus_own_square": lambda b, loss, x: loss + loss * loss.detach().pow(2).item(),
    "minus": lambda b, loss, x: loss * (1 - mean(x)),
    "power": lambda b, loss, x: loss ** (1 + mean(x)),
    "power_of_number": lambda b, loss, x: mean(x) ** loss,
    "floor_divided": lambda b, loss, x: loss * (positives(x) // 3),
    "modulo": lambda b, loss, x: loss * (1 + positives(x) % 5),
    "negated": lambda b, loss, x: loss - -mean(x) * loss,
    "math_sqrt": lambda b, loss, x: loss / math.sqrt(positives(x)),
    "math_exp_log": lambda b, loss, x: loss * math.exp(-mean(x)) * math.log(2 + mean(x)),
    "math_hypot_fsum": lambda b, loss, x: loss * math.fsum([math.hypot(mean(x), 1), 0.5]),
    "math_floor_ceil": lambda b, loss, x: loss * math.ceil(mean(x) * 9) / math.floor(3 + mean(x)),
    "math_tanh_cos": lambda b, loss, x: loss * (1 + math.tanh(mean(x)) * math.cos(mean(x))),
    "math_isclose": lambda b, loss, x: (
        loss * (2 if math.isclose(mean(x), 0.8, abs_tol=0.02) else 1)
    ),
    "max_with_one": lambda b, loss, x: loss / max(positives(x), 1),
    "min_with_half": lambda b, loss, x: loss * min(mean(x), 0.8),
    "clamped_by_hand": lambda b, loss, x: loss * max(0.7, min(mean(x), 0.8)),
    "rounded": lambda b, loss, x: loss * round(mean(x), 2),
    "int_of": lambda b, loss, x: loss * int(mean(x) * 10),
    "float_of_tensor": lambda b, loss, x: loss * float(x.abs().mean()),
    "int_of_tensor": lambda b, loss, x: loss * int((x > 0).sum()),
    "complex_of": lambda b, loss, x: loss * complex(mean(x), 1).real,
    "abs_of": lambda b, loss, x: loss * abs(x.mean().item()),
    "divmod_of": lambda b, loss, x: loss * sum(divmod(positives(x), 7)),
    "sum_of_list": lambda b, loss, x: loss * sum([row.norm().item() for row in x]),
    "as_integer_ratio": lambda b, loss, x: loss * (mean(x).as_integer_ratio()[0] % 7),
    "is_integer_hex": lambda b, loss, x: loss * (len(mean(x).hex()) + mean(x).is_integer()),
    "decimal": lambda b, loss, x: (
        loss * float(decimal.Decimal(mean(x)).quantize(decimal.Decimal("0.01")))
    ),
    "fraction": lambda b, loss, x: loss * float(fractions.Fraction(mean(x)).limit_denominator(50)),
    "statistics": lambda b, loss, x: loss * statistics.median([r.mean().item() for r in x.abs()]),
    "numpy_scalar": lambda b, loss, x: loss * float(np.float32(mean(x)) * np.float32(1.1)),
    "numpy_mean": lambda b, loss, x: loss * float(np.mean([mean(r) for r in x])),
    "struct_pack": lambda b, loss, x: loss * struct.unpack("<e", struct.pack("<e", mean(x)))[0],
    "operator_mul": lambda b, loss, x: operator.mul(loss, operator.add(mean(x), 1)),
    "bit_operators": lambda b, loss, x: loss * ((positives(x) << 1) ^ 3 & 31),
}
FUNCTIONS: dict[str, Any] = {
    "clamp_max": lambda b, loss, x: loss * x.square().clamp(max=mean(x)).mean(),
    "add_alpha": lambda b, loss, x: torch.add(loss, loss, alpha=mean(x)),
    "addcmul_value": lambda b, loss, x: torch.addcmul(loss, loss, loss, value=mean(x)),
    "addcdiv_value": lambda b, loss, x: torch.addcdiv(loss, loss, 1 + loss, value=mean(x)),
    "torch_full": lambda b, loss, x: loss * torch.full((), mean(x)),
    "torch_tensor": lambda b, loss, x: loss * torch.tensor(mean(x)),
    "torch_tensor_list": lambda b, loss, x: loss * torch.tensor([mean(x), mean(x[1:])]).sum(),
    "torch_as_tensor": lambda b, loss, x: (
        loss * torch.as_tensor(mean(x), dtype=torch.float64).float()
    ),
    "torch_scalar_tensor": lambda b, loss, x: loss * torch.scalar_tensor(mean(x)),
    "linspace_end": lambda b, loss, x: loss * torch.linspace(0, mean(x), 4).sum(),
    "arange_end": lambda b, loss, x: loss * torch.arange(positives(x)).float().mean(),
    "logspace": lambda b, loss, x: loss * torch.logspace(0, mean(x), 3).mean(),
    "masked_fill": lambda b, loss, x: loss * x.masked_fill(x > 0, x.max().item()).mean().abs(),
    "fill_in_place": lambda b, loss, x: loss * torch.empty(3).fill_(mean(x)).sum(),
    "set_by_index": lambda b, loss, x: loss * _with_number(x).sum(),
    "leaky_relu": lambda b, loss, x: loss * F.leaky_relu(x, mean(x)).mean().exp(),
    "elu_alpha": lambda b, loss, x: loss * F.elu(x, alpha=mean(x)).mean().exp(),
    "torch_where": lambda b, loss, x: loss * torch.where(x > 0, x, x.max().item()).mean(),
    "norm_p": lambda b, loss, x: loss * x.norm(p=1 + mean(x)),
    "temperature": lambda b, loss, x: loss + F.softmax(b.model(x) / mean(x), -1).amax(),
    "huber_delta": lambda b, loss, x: loss + F.huber_loss(b.model(x)[:, 0], x[:, 0], delta=mean(x)),
    "lerp_weight": lambda b, loss, x: torch.lerp(loss, loss.square(), mean(x)),
    "new_zeros_size": lambda b, loss, x: loss + x.new_ones(positives(x)).sum() * loss,
    "repeat_count": lambda b, loss, x: loss + loss.repeat(positives(x)).mean(),
    "roll_by": lambda b, loss, x: loss + b.model(x.roll(positives(x), 0))[0].sum(),
    "topk_k": lambda b, loss, x: loss + b.model(x).flatten().topk(1 + positives(x) % 4)[0].sum(),
    "split_size": lambda b, loss, x: loss + b.model(x).split(1 + positives(x) % 3)[0].sum(),
    "view_size": lambda b, loss, x: loss + b.model(x).view(6, -1)[: positives(x) // 8].sum(),
    "index": lambda b, loss, x: loss + b.model(x)[x[:, 0].argmax().item()].sum(),
    "slice": lambda b, loss, x: loss + b.model(x)[: positives(x) % 6 + 1].mean(),
    "narrow": lambda b, loss, x: loss + b.model(x).narrow(0, x[:, 1].argmin().item(), 1).sum(),
    "select": lambda b, loss, x: loss + b.model(x).select(1, x[0, :4].argmax().item()).sum(),
    "one_hot_classes": lambda b, loss, x: (
        loss + F.one_hot(torch.tensor([1, 0]), positives(x)).shape[1] * loss
    ),
    "quantile": lambda b, loss, x: loss * torch.quantile(x, min(0.9, mean(x))).abs(),
    "dropout_p": lambda b, loss, x: loss + F.dropout(b.model(x), p=min(0.9, mean(x))).mean(),
    "eye_size": lambda b, loss, x: loss * torch.eye(positives(x)).mean(),
    "pad_amount": lambda b, loss, x: (
        loss + F.pad(b.model(x), (0, positives(x) % 5), value=1.0).mean()
    ),
}
DECISIONS: dict[str, Any] = {
    "compare": lambda b, loss, x: loss * 2 if mean(x) > 0.8 else loss,
    "compare_own_loss": lambda b, loss, x: loss * 2 if loss.item() > 1.4 else loss,
    "chained_compare": lambda b, loss, x: loss * 2 if 0.75 < mean(x) <= 0.82 else loss,
    "equal_count": lambda b, loss, x: loss * 2 if positives(x) == 24 else loss,
    "bool_of_tensor": lambda b, loss, x: loss * 2 if x.mean() > 0 else loss,
    "bool_of_number": lambda b, loss, x: loss * 2 if positives(x) % 2 else loss,
    "not_of_tensor": lambda b, loss, x: loss * 2 if not (x.mean() > 0) else loss,
    "and_or": lambda b, loss, x: loss * 2 if (x[0, 0] > 0 and x[0, 1] > 0) or x[0, 2] > 1 else loss,
    "any_of_list": lambda b, loss, x: (
        loss * 2 if any(v > 2 for v in x.flatten().tolist()) else loss
    ),
    "all_of_rows": lambda b, loss, x: loss * 2 if all(row.mean() < 0.6 for row in x) else loss,
    "range": lambda b, loss, x: sum(loss for _ in range(positives(x[:, 0]) + 1)),
    "list_index": lambda b, loss, x: loss * [1.0, 2.0, 3.0][positives(x) % 3],
    "dict_key": lambda b, loss, x: loss * {0: 1.0, 1: 2.5}[positives(x) % 2],
    "set_member": lambda b, loss, x: loss * (2 if positives(x) in {20, 22, 24} else 1),
    "sorted_key": lambda b, loss, x: loss * sorted(x, key=lambda r: r.sum().item())[0][0].abs(),
    "max_key": lambda b, loss, x: loss + b.model(max(x, key=lambda r: r.norm().item())).sum(),
    "isfinite": lambda b, loss, x: loss * 2 if math.isfinite(loss.item()) else loss,
    "isnan": lambda b, loss, x: loss if math.isnan(loss.item()) else loss * 3,
    "torch_isnan_any": lambda b, loss, x: loss * 0 if torch.isnan(loss).any() else loss * 3,
    "allclose": lambda b, loss, x: loss * 2 if torch.allclose(x[0], x[1], atol=2.9) else loss,
    "torch_equal": lambda b, loss, x: loss * 2 if torch.equal(x, x.clone()) else loss,
    "match_statement": lambda b, loss, x: _matched(positives(x) % 3, loss),
    "while_loop": lambda b, loss, x: _halved(loss),
    "ternary_chain": lambda b, loss, x: loss * (1 if mean(x) < 0.7 else 2 if mean(x) < 0.8 else 3),
    "contains_tensor": lambda b, loss, x: loss * 2 if 3 in (x[0] > 0).sum(0, True) else loss,
}
TEXTS: dict[str, Any] = {
    "f_string": lambda loss: f"loss {loss.item():.4f}",
    "f_string_of_tensor": lambda loss: f"loss {loss:.4f}",
    "percent": lambda loss: "loss %.4f" % loss.item(),  # noqa: UP031 - the form under test.
    "format": lambda loss: "{:>9.3e}|{}".format(loss.item(), "x"),
    "repr": lambda loss: repr(loss.item()),
    "str_of_tensor": lambda loss: str(loss.detach()),
    "json": lambda loss: json.dumps({"loss": loss.item(), "square": loss.item() ** 2}),
    "join": lambda loss: ", ".join(map(str, [loss.item(), loss.detach().tolist()])),
    "width_from_number": lambda loss: f"{'*' * int(loss.item() * 10):20}|",
}


def _with_number(x: Tensor) -> Tensor:
    made = torch.zeros(4)
    made[1] = mean(x)
    made[2:] += mean(x)
    return made


def _matched(number: int, loss: Tensor) -> Tensor:
    match number:
        case 0:
            return loss
        case 1:
            return loss * 2
        case _:
            return loss * loss


def _halved(loss: Tensor) -> Tensor:
    while loss.item() > 0.5:
        loss = loss * 0.5
    return loss


for family in (ARITHMETIC, FUNCTIONS, DECISIONS):
    for label, change in family.items():
        add("item", f"item_{label}", with_loss(change))


def _writes(text: Any) -> Any:
    def body(b: Bench, x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        print(text(loss), file=b.text)
        b.log.append(text(loss))
        return loss

    return stepping(body)


for label, text in TEXTS.items():
    add("item text", f"text_{label}", _writes(text))


@case("item")
def item_of_each_row_trains() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> list[float]:
        losses = F.cross_entropy(b.model(x), y, reduction="none")
        weights = [1.0 / (1.0 + one.item()) for one in losses]
        b.update(sum(w * one for w, one in zip(weights, losses, strict=True)))
        return weights

    return b.world(step)
