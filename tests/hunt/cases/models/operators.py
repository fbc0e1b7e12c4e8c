"""One operator or loss after another, forward and backward, with ordinary and odd layouts."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from kit import add
from torch import Tensor, nn
from worlds import Bench, stepping

# Each makes something of the model's output h (6, 4); its mean of squares is trained on.
OPERATORS: dict[str, Any] = {
    "unfilled_then_filled": lambda h: (
        h * torch.empty(4).normal_() + torch.empty(6, 4).copy_(h.detach()) + torch.tensor([0.5])
    ),
    "unfilled_into_which_is_written": lambda h: h + torch.add(h.detach(), 1, out=torch.empty(6, 4)),
    "cumsum_cumprod": lambda h: h.cumsum(0) + h.cumprod(1),
    "logcumsumexp_cummax": lambda h: h.logcumsumexp(0) + h.cummax(1).values,
    "sort_kthvalue": lambda h: h.sort(1, descending=True).values + h.kthvalue(2, 0).values,
    "median_mode": lambda h: h.median(0).values + h.nanmedian() + h.flatten().median(),
    "var_std": lambda h: h.var(0) + h.std(1, keepdim=True) + torch.var_mean(h)[1],
    "norms": lambda h: torch.stack([h.norm(), h.norm(1), h.norm(float("inf")), h.norm(0.5)]),
    "linalg_norms": lambda h: torch.linalg.matrix_norm(h, "nuc") + torch.linalg.vector_norm(h, 3),
    "scatter_gather": lambda h: (
        torch.zeros(6, 4).scatter_add(1, h.argsort(1), h).gather(1, h.argsort(1))
    ),
    "index_put": lambda h: torch.zeros(6, 4).index_put(
        (torch.tensor([0, 2, 2]),), h[:3], accumulate=True
    ),
    "index_copy_fill": lambda h: h.index_copy(0, torch.tensor([1]), h[:1]).index_fill(
        1, torch.tensor([0]), 2.0
    ),
    "index_add_reduce": lambda h: h.index_reduce(0, torch.tensor([0, 1, 1]), h[:3], "amax"),
    "take_along": lambda h: torch.take_along_dim(h, h.argsort(0), 0) + h.take(torch.tensor([3]))[0],
    "einsum": lambda h: torch.einsum("ij,kj->ik", h, h) + torch.einsum("ij,ij->", h, h),
    "matmuls": lambda h: torch.bmm(h.view(2, 3, 4), h.view(2, 4, 3)) + (h.t() @ h).trace(),
    "outer_kron": lambda h: torch.kron(h[:2], h[2:4]) + torch.outer(h[0], h[1]).sum(),
    "solve": lambda h: torch.linalg.solve(h.t() @ h + torch.eye(4), h.t()),
    "inverse_det": lambda h: (
        torch.linalg.inv(h.t() @ h + torch.eye(4)) + torch.linalg.slogdet(h[:4] + 3)[1]
    ),
    "cholesky": lambda h: torch.linalg.cholesky(h.t() @ h + torch.eye(4)),
    "eigh": lambda h: torch.linalg.eigvalsh(h.t() @ h + torch.diag(torch.arange(4.0))),
    "svd_qr": lambda h: torch.linalg.svdvals(h) + torch.linalg.qr(h).R.diagonal(),
    "matrix_exp_power": lambda h: (
        torch.matrix_exp(h[:4] * 0.1) + torch.linalg.matrix_power(h[:4], 2)
    ),
    "lstsq_pinv": lambda h: torch.linalg.pinv(h[:, :2]),
    "fft": lambda h: torch.fft.rfft(h).abs() + torch.fft.irfft(torch.fft.rfft(h), n=4)[:, :3],
    "stft": lambda h: torch.stft(
        h.flatten(), 8, 4, window=torch.hann_window(8), return_complex=True
    ).abs(),
    "complex": lambda h: (
        torch.view_as_real(torch.polar(h.abs(), h)).sum(-1) + torch.complex(h, h).angle()
    ),
    "rolls_flips": lambda h: h.roll(1, 0).flip(1).rot90().t(),
    "diagonals": lambda h: torch.diag_embed(h).diagonal(dim1=1, dim2=2) + h.tril(-1) + h.triu(1),
    "unfold_fold": lambda h: F.fold(F.unfold(h.view(1, 1, 6, 4), 2), (6, 4), 2)[0, 0],
    "as_strided": lambda h: h.as_strided((3, 2), (8, 1), 1) + h.unfold(0, 2, 2)[..., 0][:, :2],
    "stack_cat_split": lambda h: torch.cat([torch.stack([h, h]).sum(0), *h.chunk(3)], 0),
    "tensor_split_unbind": lambda h: (
        torch.hstack(h.tensor_split([1, 3], 1)[::-1]) + h.unbind(1)[0][:, None]
    ),
    "meshgrid_broadcast": lambda h: sum(torch.meshgrid(h[0], h[1], indexing="ij")) + h[2][:, None],
    "where_clamp": lambda h: (
        torch.where(h > 0, h.clamp(max=0.5), h.clamp(-0.2)) + h.clip(h * 0.5, h * 2 + 9)
    ),
    "rounding": lambda h: h + h.round() + h.floor() + h.frac() + h.trunc() + h.sign(),
    "remainders": lambda h: (
        h.fmod(0.3) + h.remainder(0.7) + torch.div(h, 0.4, rounding_mode="floor") * h
    ),
    "special": lambda h: torch.special.erf(h) + torch.lgamma(h.abs() + 1) + torch.special.i0(h),
    "trigonometry": lambda h: (
        h.sin() + h.atan2(h + 2) + h.sinh() + torch.sinc(h) + h.tanh().atanh()
    ),
    "bit_and_logic": lambda h: h * ((h > 0) ^ (h > 0.1)).logical_not() * ((h * 8).int() & 3),
    "softmaxes": lambda h: (
        h.softmax(0) + h.log_softmax(1) + F.softmin(h, 1) + h.logsumexp(1, keepdim=True)
    ),
    "activations": lambda h: (
        F.gelu(h) + F.silu(h) + F.mish(h) + F.hardswish(h) + F.softplus(h) + F.celu(h)
    ),
    "more_activations": lambda h: (
        F.glu(h) + F.gelu(h[:, :2], approximate="tanh") + F.hardtanh(h[:, :2])
    ),
    "in_place_activations": lambda h: F.relu6(h.clone(), inplace=True).sigmoid(),
    "attention": lambda h: F.scaled_dot_product_attention(
        *[h.view(1, 2, 3, 4)] * 3, is_causal=True
    ),
    "attention_masked": lambda h: F.scaled_dot_product_attention(
        *[h.view(1, 2, 3, 4)] * 3, attn_mask=torch.tensor([[True, False, True]] * 3)
    ),
    "attention_grouped": lambda h: F.scaled_dot_product_attention(
        h.view(1, 4, 3, 2), *[h.view(1, 4, 3, 2)[:, :2]] * 2, enable_gqa=True
    ),
    "attention_dropout": lambda h: F.scaled_dot_product_attention(
        *[h.view(1, 2, 3, 4)] * 3, dropout_p=0.3
    ),
    "pools": lambda h: (
        F.avg_pool1d(h[None], 2) + F.max_pool1d(h[None], 2) + F.lp_pool1d(h[None], 2, 2)
    ),
    "adaptive_pools": lambda h: (
        F.adaptive_avg_pool2d(h[None], (3, 2)) + F.adaptive_max_pool2d(h[None], (3, 2))
    ),
    "interpolate": lambda h: F.interpolate(h[None, None], scale_factor=2, mode="bilinear"),
    "interpolate_bicubic": lambda h: F.interpolate(
        h[None, None], (9, 5), mode="bicubic", antialias=True
    ),
    "grid_sample": lambda h: F.grid_sample(
        h[None, None], h[None, :, :2, None].expand(1, 6, 2, 2).tanh()
    ),
    "affine_grid": lambda h: F.affine_grid(h[:2, :3].repeat(1, 2).view(2, 2, 3), (2, 1, 3, 3)),
    "pixel_shuffle": lambda h: F.pixel_shuffle(h.view(1, 4, 3, 2), 2),
    "pads": lambda h: (
        F.pad(F.pad(h[None], (1, 2), "reflect"), (1, 1), "circular")
        + F.pad(h[None], (2, 3), "replicate")
    ),
    "distances": lambda h: torch.cdist(h, h[:4]) + F.cosine_similarity(h, h.flip(0))[:, None],
    "pdist": lambda h: F.pdist(h),
    "searchsorted": lambda h: (
        h * torch.searchsorted(torch.tensor([-0.5, 0.0, 0.5]), h.contiguous())
    ),
    "bucketize_histogram": lambda h: h * torch.bucketize(h, torch.linspace(-1, 1, 4)),
    "cross_products": lambda h: (
        torch.linalg.cross(h[:, :3], h[:, 1:]) + torch.cross(h[:, 1:], h[:, :3], dim=1)
    ),
    "trapezoid_diff": lambda h: (
        torch.trapezoid(h, dim=1)[:, None] + h.diff(dim=1) + torch.gradient(h, dim=1)[0][:, :3]
    ),
    "corrcoef": lambda h: torch.corrcoef(h) + torch.cov(h),
    "renorm": lambda h: h.renorm(2, 0, 0.5) + F.normalize(h, p=1),
    "nan_functions": lambda h: (
        torch.nan_to_num(h / (h > 0)).clamp(-5, 5) + h.nansum() + h.nanmean()
    ),
    "expand_repeat": lambda h: h[:, None].expand(6, 2, 4).reshape(12, 4) + h.repeat(2, 1),
    "movedim_permute": lambda h: (
        h.view(2, 3, 4).permute(2, 0, 1).movedim(0, 1).contiguous().flatten(1)
    ),
    "local_norms": lambda h: (
        F.local_response_norm(h[None], 2) + F.layer_norm(h, (4,)) + F.group_norm(h, 2)
    ),
    "sparse_matmul": lambda h: torch.sparse.mm(torch.eye(6).to_sparse(), h),
    "out_argument": lambda h: h + torch.mul(h.detach(), 2, out=torch.empty(6, 4)),
    "out_argument_resized": lambda h: h + torch.add(h.detach(), 1, out=torch.empty(0)),
    "float16_and_back": lambda h: (
        (h.half() * 2).float() + h.double().float() + h.to(torch.float8_e4m3fn).float()
    ),
    "integer_division": lambda h: h * ((h * 10).int() // 3).clamp(min=1) + (h > 0).cumsum(0),
    "views_written": lambda h: _written(h),
}
LOSSES: dict[str, Any] = {
    "mse_l1": lambda h, y: F.mse_loss(h, h.detach() * 2) + F.l1_loss(h, h.detach() + 1),
    "smooth_huber": lambda h, y: (
        F.smooth_l1_loss(h, h.detach() + 1) + F.huber_loss(h, h.detach() - 2)
    ),
    "bce": lambda h, y: F.binary_cross_entropy_with_logits(
        h, F.one_hot(y, 4).float(), pos_weight=torch.ones(4) * 2
    ),
    "bce_of_probabilities": lambda h, y: F.binary_cross_entropy(
        h.sigmoid(), F.one_hot(y, 4).float()
    ),
    "nll": lambda h, y: F.nll_loss(h.log_softmax(1), y, ignore_index=2),
    "smoothed": lambda h, y: F.cross_entropy(h, y, label_smoothing=0.1, reduction="sum"),
    "soft_targets": lambda h, y: F.cross_entropy(h, h.detach().softmax(1).flip(1)),
    "kl": lambda h, y: F.kl_div(
        h.log_softmax(1), h.detach().softmax(1).flip(0), reduction="batchmean"
    ),
    "poisson": lambda h, y: F.poisson_nll_loss(h, y[:, None].expand(6, 4).float()),
    "gaussian": lambda h, y: F.gaussian_nll_loss(h[:, 0], y.float(), h[:, 1].exp()),
    "margins": lambda h, y: F.multi_margin_loss(h, y) + F.soft_margin_loss(h, h.detach().sign()),
    "multilabel": lambda h, y: F.multilabel_soft_margin_loss(h, F.one_hot(y, 4).float()),
    "multilabel_margin": lambda h, y: F.multilabel_margin_loss(
        h, torch.tensor([[0, 2, -1, 1]] * 6)
    ),
    "hinge": lambda h, y: F.hinge_embedding_loss(h, h.detach().sign()),
    "cosine": lambda h, y: F.cosine_embedding_loss(h, h.detach().flip(0), torch.ones(6)),
    "triplet": lambda h, y: F.triplet_margin_loss(h[:2], h[2:4], h[4:], swap=True),
    "ranking": lambda h, y: F.margin_ranking_loss(h[:, 0], h[:, 1], y.float().sign()),
    "dice": lambda h, y: (
        1 - 2 * (h.softmax(1)[:, 0] * (y == 0)).sum() / (h.softmax(1)[:, 0].sum() + 1)
    ),
    "contrastive": lambda h, y: F.cross_entropy(F.normalize(h) @ F.normalize(h).t() / 0.1, y),
}


def _written(h: Tensor) -> Tensor:
    made = h.clone()
    made[:, 0].mul_(2)
    made[1:3, 1:] = h[3:5, 1:]
    made.t()[2].add_(h[:, 1])
    made.view(-1)[::5] *= 0.5
    return made


def _of_operator(function: Any) -> Any:
    def body(b: Bench, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        made = function(b.model(x))
        return b.update(made.square().mean()), made

    return stepping(body, model=None, count=3)


def _of_loss(function: Any) -> Any:
    def body(b: Bench, x: Tensor, y: Tensor) -> Tensor:
        return b.update(function(b.model(x), y))

    return stepping(body, count=3)


for label, function in OPERATORS.items():
    add("operator", f"operator_{label}", _of_operator(function))
for label, function in LOSSES.items():
    add("loss", f"loss_{label}", _of_loss(function))

LAYERS: dict[str, Any] = {
    "conv_groups": lambda: nn.Conv1d(2, 4, 3, padding="same", groups=2, bias=False),
    "conv_dilated": lambda: nn.Conv1d(2, 3, 2, dilation=2, stride=2),
    "conv_circular": lambda: nn.Conv1d(2, 2, 3, padding=1, padding_mode="circular"),
    "conv_transposed_1d": lambda: nn.ConvTranspose1d(2, 3, 3, stride=2, output_padding=1),
    "dropout_1d": lambda: nn.Dropout1d(0.5),
    "alpha_dropout": lambda: nn.AlphaDropout(0.5),
    "upsample": lambda: nn.Upsample(scale_factor=2, mode="linear"),
    "batch_norm_2": lambda: nn.BatchNorm1d(2, affine=False),
    "layer_norm_2": lambda: nn.LayerNorm([2, 4], elementwise_affine=True),
    "max_unpool": lambda: Unpooled(),
    "gumbel": lambda: Gumbel(),
}


class Unpooled(nn.Module):
    """Max pooling and back."""

    def forward(self, x: Tensor) -> Tensor:
        pooled, where = F.max_pool1d(x, 2, return_indices=True)
        return F.max_unpool1d(pooled, where, 2)


class Gumbel(nn.Module):
    """Hard samples with soft gradients."""

    def forward(self, x: Tensor) -> Tensor:
        return F.gumbel_softmax(x, hard=True) * x


def _of_layer(make: Any) -> Any:
    def body(b: Bench, x: Tensor, y: Tensor) -> Tensor:
        out = b.model[1](b.model[0](x).view(6, 2, 4))
        return b.update(out.flatten(1).square().mean(1).sum())

    def build() -> Any:
        return stepping(body, model=nn.ModuleList([nn.Linear(8, 8), make()]), count=3)()

    return build


for label, make in LAYERS.items():
    add("layer", f"layer_{label}", _of_layer(make))
