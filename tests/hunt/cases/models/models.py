"""Models: layers with state of their own, parametrizations, ties, several models in a step."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from kit import Call, Do, add, case
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune
from torch.nn.utils import spectral_norm as old_spectral_norm
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from worlds import Bench, mlp, sgd


def simple(make: Any) -> Any:
    """A case that trains a model on the usual batches."""

    def build() -> Any:
        b = Bench(make())
        return b.world(b.usual)

    return build


class Shaped(nn.Module):
    """Views the features as `shape` before a layer, and flattens after."""

    def __init__(self, shape: tuple[int, ...], layer: nn.Module, features: int) -> None:
        super().__init__()
        self.shape, self.layer, self.out = shape, layer, nn.Linear(features, 4)

    def forward(self, x: Tensor) -> Tensor:
        made = self.layer(x.view(-1, *self.shape))
        made = made[0] if isinstance(made, tuple) else made
        return self.out(made.flatten(1))


class Tied(nn.Module):
    """The output layer's weight is the input layer's."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)
        self.two.weight = self.one.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.two(self.one(x).relu())


class Orthogonal(nn.Module):
    """A parametrization that the user has written."""

    def forward(self, x: Tensor) -> Tensor:
        return x / (x.norm(dim=1, keepdim=True) + 1e-3)


def own_parametrization() -> nn.Module:
    model = mlp()
    nn.utils.parametrize.register_parametrization(model[0], "weight", Orthogonal())
    return model


def pruned() -> nn.Module:
    model = mlp()
    prune.l1_unstructured(model[0], "weight", amount=0.3)
    return model


def norm(layer: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), layer, nn.Linear(8, 4))


def scripted() -> nn.Module:
    return nn.Sequential(torch.jit.script(nn.Linear(8, 8)), nn.Linear(8, 4))


def traced() -> nn.Module:
    return torch.jit.trace(mlp(), torch.randn(6, 8))


def wrapped() -> nn.Module:
    return nn.Sequential(nn.DataParallel(nn.Linear(8, 8)), nn.Linear(8, 4))


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1, batch_first=True)
    return Shaped((2, 4), nn.TransformerEncoder(layer, 2), 8)


MODELS: dict[str, Any] = {
    "tied_weights": Tied,
    "batch_norm": lambda: norm(nn.BatchNorm1d(8)),
    "batch_norm_cumulative": lambda: norm(nn.BatchNorm1d(8, momentum=None)),
    "batch_norm_without_statistics": lambda: norm(nn.BatchNorm1d(8, track_running_stats=False)),
    "batch_norm_evaluating": lambda: norm(nn.BatchNorm1d(8).eval()),
    "group_norm": lambda: norm(nn.GroupNorm(2, 8)),
    "instance_norm": lambda: Shaped((2, 4), nn.InstanceNorm1d(2, track_running_stats=True), 8),
    "rms_norm": lambda: norm(nn.RMSNorm(8)),
    "weight_norm": lambda: norm(parametrizations.weight_norm(nn.Linear(8, 8))),
    "spectral_norm": lambda: norm(parametrizations.spectral_norm(nn.Linear(8, 8))),
    "spectral_norm_of_hooks": lambda: norm(old_spectral_norm(nn.Linear(8, 8))),
    "orthogonal": lambda: norm(parametrizations.orthogonal(nn.Linear(8, 8))),
    "own_parametrization": own_parametrization,
    "pruned": pruned,
    "lstm": lambda: Shaped((2, 4), nn.LSTM(4, 5, 2, bidirectional=True, batch_first=True), 20),
    "gru": lambda: Shaped((4, 2), nn.GRU(2, 3, batch_first=True), 12),
    "rnn": lambda: Shaped((4, 2), nn.RNN(2, 3, nonlinearity="relu", batch_first=True), 12),
    "conv": lambda: Shaped((2, 4), nn.Conv1d(2, 3, 3, padding=1), 12),
    "conv_2d_pool": lambda: Shaped(
        (2, 2, 2), nn.Sequential(nn.Conv2d(2, 4, 1), nn.MaxPool2d(2), nn.Dropout2d(0.3)), 4
    ),
    "conv_transposed": lambda: Shaped((2, 2, 2), nn.ConvTranspose2d(2, 2, 2, stride=2), 32),
    "bilinear_prelu": lambda: norm(nn.PReLU(8)),
    "transformer": transformer,
    "script": scripted,
    "trace": traced,
    "data_parallel": wrapped,
    "softmax_inside": lambda: nn.Sequential(nn.Linear(8, 8), nn.Softmax(-1), nn.Linear(8, 4)),
    "selu": lambda: nn.Sequential(nn.Linear(8, 8), nn.SELU(), nn.Linear(8, 4)),
}
for label, make in MODELS.items():
    add("model", f"model_{label}", simple(make))


@case("models")
def model_attention_with_masks() -> Any:
    b = Bench(nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True))

    def step(x: Tensor, y: Tensor) -> Tensor:
        mask = torch.triu(torch.ones(6, 6, dtype=torch.bool), 1)
        padded = torch.zeros(1, 6, dtype=torch.bool)
        padded[0, 5] = y[0] == 0
        out, weights = b.model(x[None], x[None], x[None], attn_mask=mask, key_padding_mask=padded)
        b.update(F.cross_entropy(out[0], y))
        return weights

    return b.world(step)


@case("models")
def model_embedding_with_a_norm() -> Any:
    b = Bench(nn.Embedding(10, 4, max_norm=1.0, scale_grad_by_freq=True, padding_idx=0), make=sgd)
    calls = [(torch.tensor([k, 3, 3, 0]), torch.tensor([0, 1, 2, 3])) for k in range(5)]
    return b.world(b.usual, calls=calls)


@case("models")
def model_quantization_aware() -> Any:
    class Fake(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 4)
            self.register_buffer("low", torch.tensor(float("inf")))
            self.register_buffer("high", torch.tensor(float("-inf")))

        def forward(self, x: Tensor) -> Tensor:
            out = self.fc(x)
            self.low.copy_(torch.min(self.low, out.detach().min()))
            self.high.copy_(torch.max(self.high, out.detach().max()))
            scale = ((self.high - self.low) / 255).item()
            zero = round((-self.low / scale).item())
            return torch.fake_quantize_per_tensor_affine(out, scale, zero, 0, 255)

    b = Bench(Fake())
    return b.world(b.usual)


def averaged(inside: bool, **options: Any) -> Any:
    def build() -> Any:
        b = Bench(norm(nn.BatchNorm1d(8)))
        average = AveragedModel(b.model, **options)

        def step(x: Tensor, y: Tensor) -> Tensor:
            loss = b.usual(x, y)
            if inside:
                average.update_parameters(b.model)
            return loss

        def update() -> None:
            average.update_parameters(b.model)

        calls: list[Any] = []
        for batch in b.calls:
            calls += [batch] if inside else [batch, Do(update)]
        return b.world(step, average, calls=calls)

    return build


add("model", "averaged_model_inside", averaged(inside=True))
add("model", "averaged_model_outside", averaged(inside=False))
add(
    "model",
    "averaged_model_exponential",
    averaged(inside=True, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True),
)
add(
    "model",
    "averaged_model_own_function",
    averaged(inside=True, avg_fn=lambda a, p, n: a + (p - a) / (n + 1)),
)


@case("models")
def generator_and_discriminator_in_one_step() -> Any:
    g, d = nn.Linear(3, 8), nn.Linear(8, 1)
    og, od = torch.optim.Adam(g.parameters(), lr=0.01), torch.optim.Adam(d.parameters(), lr=0.01)
    b = Bench()

    def step(x: Tensor, y: Tensor) -> tuple[float, float]:
        fake = g(torch.randn(6, 3))
        od.zero_grad()
        of_d = F.softplus(-d(x)).mean() + F.softplus(d(fake.detach())).mean()
        of_d.backward()
        od.step()
        og.zero_grad()
        of_g = F.softplus(-d(fake)).mean()
        of_g.backward()
        og.step()
        return of_d.item(), of_g.item()

    return step, b.calls, lambda: (g, d, og, od)


@case("models")
def generator_and_discriminator_in_two_steps() -> Any:
    g, d = nn.Linear(3, 8), nn.Linear(8, 1)
    og, od = torch.optim.Adam(g.parameters(), lr=0.01), torch.optim.Adam(d.parameters(), lr=0.01)
    b = Bench()

    def critic(x: Tensor) -> Tensor:
        od.zero_grad()
        with torch.no_grad():
            fake = g(torch.randn(6, 3))
        loss = F.softplus(-d(x)).mean() + F.softplus(d(fake)).mean()
        loss.backward()
        od.step()
        return loss

    def maker(z: Tensor) -> Tensor:
        og.zero_grad()
        loss = F.softplus(-d(g(z))).mean()
        loss.backward()
        og.step()
        return loss

    calls: list[Any] = []
    for x, _ in b.calls[:3]:
        calls += [Call(x), Call(x[:, :3], which=1)]
    return [critic, maker], calls, lambda: (g, d, og, od)


@case("models")
def critic_steps_then_a_generator_step() -> Any:
    g, d = nn.Linear(3, 8), nn.Linear(8, 1)
    og, od = torch.optim.RMSprop(g.parameters()), torch.optim.RMSprop(d.parameters())
    b, n = Bench(), [0]

    def step(x: Tensor, y: Tensor) -> list[float]:
        n[0] += 1
        losses = []
        fake = g(torch.randn(6, 3))
        od.zero_grad()
        loss = d(fake.detach()).mean() - d(x).mean()
        loss.backward()
        od.step()
        losses.append(loss.item())
        for p in d.parameters():
            p.data.clamp_(-0.1, 0.1)
        if n[0] % 2 == 0:
            og.zero_grad()
            (-d(fake).mean()).backward()
            og.step()
            losses.append(fake.mean().item())
        return losses

    return step, b.calls, lambda: (g, d, og, od, n)


@case("models")
def mean_teacher() -> Any:
    b = Bench()
    teacher, n = copy.deepcopy(b.model).requires_grad_(False), [0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        target = teacher(x + 0.1 * torch.randn_like(x)).softmax(-1)
        loss = b.update(b.loss(x, y) + F.mse_loss(b.model(x).softmax(-1), target))
        n[0] += 1
        alpha = min(1 - 1 / (n[0] + 1), 0.99)
        for t, s in zip(teacher.parameters(), b.model.parameters(), strict=True):
            t.data.mul_(alpha).add_(s.data, alpha=1 - alpha)
        return loss

    return b.world(step, teacher, n)


@case("models")
def target_network_every_second_step() -> Any:
    b, n = Bench(make=sgd), [0]
    target = copy.deepcopy(b.model).eval()

    def step(x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad():
            best = 0.9 * target(x).max(1).values
        chosen = b.model(x).gather(1, y[:, None])[:, 0]
        loss = b.update(F.smooth_l1_loss(chosen, best + 1))
        n[0] += 1
        if n[0] % 2 == 0:
            target.load_state_dict(b.model.state_dict())
        return loss

    return b.world(step, target, n)


@case("models")
def distillation_with_a_centre() -> Any:
    b = Bench()
    teacher, centre = copy.deepcopy(b.model), torch.zeros(1, 4)

    def step(x: Tensor, y: Tensor) -> Tensor:
        nonlocal centre
        with torch.no_grad():
            out = teacher(x)
        wanted = ((out - centre) / 0.1).softmax(-1)
        loss = b.update(-(wanted * b.model(x).log_softmax(-1)).sum(-1).mean())
        centre = centre * 0.9 + out.mean(0, keepdim=True) * 0.1
        with torch.no_grad():
            for t, s in zip(teacher.parameters(), b.model.parameters(), strict=True):
                t.lerp_(s, 0.1)
        return loss

    return step, b.calls, lambda: (b.model, b.opt, teacher, centre)


@case("models")
def actor_and_critic() -> Any:
    actor, critic = nn.Linear(8, 4), nn.Linear(8, 1)
    b = Bench(nn.ModuleList([actor, critic]))

    def step(x: Tensor, y: Tensor) -> tuple[float, float]:
        policy = torch.distributions.Categorical(logits=actor(x))
        ratio = (policy.log_prob(y) - policy.log_prob(y).detach()).exp()
        advantage = y.float() - critic(x)[:, 0]
        normal = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        normal = normal.detach()
        of_policy = -torch.min(ratio * normal, ratio.clamp(0.8, 1.2) * normal).mean()
        of_value = advantage.square().mean()
        b.update(of_policy + 0.5 * of_value - 0.01 * policy.entropy().mean())
        return of_policy.item(), of_value.item()

    return b.world(step)
