"""What users change in mid-training: parts are frozen, loaded, copied, replaced, added."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch
import torch.nn.functional as F
from kit import Again, Call, Do, add, case
from torch import Tensor, nn
from worlds import Bench, mlp, sgd


def changed(change: Any, make: Any = None, model: Any = None) -> Any:
    """A case that calls `change(bench)` after the second step."""

    def build() -> Any:
        b = Bench(None if model is None else model(), *([] if make is None else [make]))
        act = Do(lambda: change(b))
        return b.world(b.usual, calls=[*b.calls[:2], act, *b.calls[2:]])

    return build


def freeze(b: Bench) -> None:
    b.model[0].requires_grad_(False)


def load_model(b: Bench) -> None:
    torch.manual_seed(5)
    b.model.load_state_dict(mlp().state_dict())


def load_model_assigned(b: Bench) -> None:
    torch.manual_seed(5)
    b.model.load_state_dict(mlp().state_dict(), assign=True)


def load_optimizer(b: Bench) -> None:
    state = copy.deepcopy(b.opt.state_dict())
    for one in state["state"].values():
        one["step"] += 5
        one["exp_avg"] = one["exp_avg"] * 0.5
    state["param_groups"][0]["lr"] = 0.02
    b.opt.load_state_dict(state)


def resume(b: Bench) -> None:
    saved = copy.deepcopy((b.model.state_dict(), b.opt.state_dict()))
    for p in b.model.parameters():
        p.data.zero_()
    b.model.load_state_dict(saved[0])
    b.opt.load_state_dict(saved[1])


def copy_model(b: Bench) -> None:
    twin = copy.deepcopy(b.model)
    with torch.no_grad():
        twin[0].weight.zero_()
    b.log.append(twin)


def write_parameters(b: Bench) -> None:
    with torch.no_grad():
        for p in b.model.parameters():
            p.mul_(0.5)
        b.model[0].weight[0] = 1.0


def set_data(b: Bench) -> None:
    b.model[0].weight.data = torch.ones(8, 8)


def swap_data(b: Bench) -> None:
    one, two = b.model[0].weight, b.model[0].weight.detach().flip(0).contiguous()
    one.data = two


def from_vector(b: Bench) -> None:
    vector = nn.utils.parameters_to_vector(b.model.parameters())
    nn.utils.vector_to_parameters(vector * 0.9, b.model.parameters())


def replace_parameter(b: Bench) -> None:
    b.model[2].bias = nn.Parameter(torch.ones(4))


def replace_part(b: Bench) -> None:
    b.model[1] = nn.ReLU()


def replace_head(b: Bench) -> None:
    torch.manual_seed(5)
    b.model[2] = nn.Linear(8, 4)
    b.opt.add_param_group({"params": b.model[2].parameters(), "lr": 0.05})


def add_group(b: Bench) -> None:
    b.opt.add_param_group({"params": list(b.model[0].parameters()), "lr": 0.001})


def append_layer(b: Bench) -> None:
    torch.manual_seed(5)
    b.model.append(nn.Linear(4, 4))
    b.opt.add_param_group({"params": b.model[3].parameters()})


def new_optimizer(b: Bench) -> None:
    b.opt = torch.optim.SGD(b.model.parameters(), lr=0.1, momentum=0.9)


def new_forward(b: Bench) -> None:
    old = b.model.forward
    b.model.forward = lambda x: old(x) * 2


def other_momentum(b: Bench) -> None:
    b.model[1].momentum = 0.5
    b.model[1].eps = 0.1


def to_double_and_back(b: Bench) -> None:
    b.model.double().float()


def reset_statistics(b: Bench) -> None:
    b.model[1].reset_running_stats()


def unfreeze(b: Bench) -> None:
    for p in b.model.parameters():
        if not p.requires_grad:
            p.requires_grad_(True)
            b.opt.add_param_group({"params": [p]})


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 4))


def frozen() -> nn.Module:
    model = mlp()
    model[0].requires_grad_(False)
    return model


def evaluate_outside(b: Bench) -> None:
    b.model.eval()
    with torch.no_grad():
        b.log.append(b.model(torch.ones(2, 8)))
    b.model.train()


def plain_step_outside(b: Bench) -> None:
    b.log.append(b.usual(*b.calls[0]).item())


CHANGES: dict[str, tuple[Any, ...]] = {
    "freeze": (freeze,),
    "unfreeze": (unfreeze, None, frozen),
    "load_model": (load_model,),
    "load_model_assigned": (load_model_assigned,),
    "load_optimizer": (load_optimizer,),
    "resume": (resume,),
    "copy_of_the_model": (copy_model,),
    "parameters_written": (write_parameters,),
    "parameter_data_set": (set_data,),
    "parameter_data_flipped": (swap_data, sgd),
    "parameters_from_a_vector": (from_vector, sgd),
    "parameter_replaced": (replace_parameter,),
    "part_replaced": (replace_part,),
    "head_replaced": (replace_head,),
    "group_added": (add_group, lambda ps: torch.optim.SGD(ps[2:], lr=0.1)),
    "layer_appended": (append_layer,),
    "new_optimizer": (new_optimizer,),
    "forward_replaced": (new_forward,),
    "to_double_and_back": (to_double_and_back,),
    "norm_settings": (other_momentum, None, normed),
    "norm_statistics_reset": (reset_statistics, None, normed),
    "evaluation_mode": (lambda b: b.model.eval(), None, normed),
    "part_in_evaluation_mode": (lambda b: b.model[1].eval(), None, normed),
    "dropout_set": (lambda b: setattr(b.model[2], "p", 0.9), None, normed),
    "evaluated_in_plain": (evaluate_outside, None, normed),
    "trained_in_plain": (plain_step_outside,),
    "gradients_set_to_none": (lambda b: b.model.zero_grad(set_to_none=True),),
    "attribute_added": (lambda b: setattr(b.model, "note", "x"),),
    "log_cleared": (lambda b: b.log.clear(),),
}


def again(b: Bench, *more: Any) -> Any:
    one, two, three, four, five = b.calls
    return b.world(b.usual, *more, calls=[one, two, Again(), three, Again(), four, five])


@case("again")
def again_with_adam() -> Any:
    return again(Bench())


@case("again")
def again_with_statistics_and_dropout() -> Any:
    return again(Bench(normed(), make=sgd))


@case("again")
def again_after_changes() -> Any:
    b = Bench()
    one, two, three, four, five = b.calls
    act = Do(lambda: (load_optimizer(b), set_data(b)))
    return b.world(b.usual, calls=[one, two, act, Again(), three, act, four, Again(), five])


@case("again")
def again_with_plain_steps_between() -> Any:
    b = Bench()
    one, two, three, four, _ = b.calls
    act = Do(lambda: plain_step_outside(b))
    return b.world(b.usual, calls=[one, two, act, Again(), act, three, act, Again(), four])


for label, (change, *rest) in CHANGES.items():
    add("change", f"change_{label}", changed(change, *rest))


@case("change")
def change_of_a_config_object() -> Any:
    @dataclasses.dataclass
    class Config:
        scale: float = 1.0
        square: bool = False
        name: str = "a"

    b, config = Bench(), Config()

    def step(x: Tensor, y: Tensor) -> tuple[Tensor, str]:
        loss = b.loss(x, y) * config.scale
        return b.update(loss.square() if config.square else loss), config.name

    def change(**values: Any) -> Do:
        return Do(lambda: vars(config).update(values))

    one, two, three, four, five = b.calls
    calls = [one, change(scale=0.5), two, change(square=True), three, change(name="b"), four]
    return b.world(step, config, calls=[*calls, change(scale=2.0, square=False), five])


@case("change")
def change_of_a_dict_and_a_global_list() -> Any:
    b, config, weights = Bench(), {"weights": [1.0, 1.0, 1.0, 1.0], "on": True}, [1.0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        w = torch.tensor(config["weights"]) if config["on"] else None
        return b.update(F.cross_entropy(b.model(x), y, weight=w) * weights[-1])

    one, two, three, four, five = b.calls
    set_one = Do(lambda: config["weights"].__setitem__(1, 3.0))
    off, grow = Do(lambda: config.update(on=False)), Do(lambda: weights.append(0.5))
    return b.world(step, config, weights, calls=[one, set_one, two, off, three, grow, four, five])


@case("change")
def change_of_class_weights() -> Any:
    b = Bench()
    b.weights = torch.ones(4)

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(F.cross_entropy(b.model(x), y, weight=b.weights))

    replace = Do(lambda: setattr(b, "weights", torch.tensor([1.0, 2.0, 3.0, 4.0])))
    in_place = Do(lambda: b.weights.mul_(0.5))
    one, two, three, four, five = b.calls
    return b.world(step, calls=[one, two, replace, three, in_place, four, five])


@case("change")
def change_of_a_function() -> Any:
    b, parts = Bench(), {"loss": F.cross_entropy}

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(parts["loss"](b.model(x), y))

    other = Do(lambda: parts.update(loss=lambda out, y: F.multi_margin_loss(out, y)))
    return b.world(step, calls=[*b.calls[:2], other, *b.calls[2:]])


@case("change")
def change_closed_over_variable() -> Any:
    b = Bench()
    scale, use_square = 1.0, False

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y) * scale
        return b.update(loss.square() if use_square else loss)

    def change() -> None:
        nonlocal scale, use_square
        scale, use_square = 0.5, True

    return b.world(step, calls=[*b.calls[:2], Do(change), *b.calls[2:]])


@case("change")
def change_of_the_trained_part() -> Any:
    b = Bench()
    b.opts = [torch.optim.SGD(b.model[k].parameters(), lr=0.1) for k in (0, 2)]

    def train(k: int) -> Any:
        def step(x: Tensor, y: Tensor) -> Tensor:
            b.opts[k].zero_grad()
            loss = b.loss(x, y)
            loss.backward()
            b.opts[k].step()
            return loss

        return step

    calls = [Call(*batch, which=k % 2) for k, batch in enumerate(b.calls)]
    return [train(0), train(1)], calls, b.probe(b.opts)


@case("change")
def change_of_shared_memory() -> Any:
    b = Bench(make=sgd)
    b.model.share_memory()
    handle = b.model[0].weight.untyped_storage()._share_filename_cpu_()
    elsewhere = torch.UntypedStorage._new_shared_filename_cpu(*handle)
    as_others_see = torch.empty(0).set_(elsewhere, 0, (8, 8))
    return b.world(b.usual, as_others_see)


@case("change")
def view_of_a_parameter_kept() -> Any:
    b = Bench(make=sgd)
    row = b.model[0].weight.data[0]
    read = Do(lambda: b.log.append(row.sum().item()))
    write = Do(lambda: row.zero_())
    one, two, three, four, _ = b.calls
    return b.world(b.usual, row, calls=[one, read, two, write, three, read, four])


@case("change")
def flat_parameters_with_views() -> Any:
    flat = torch.randn(8 * 4 + 4)
    weight, bias = flat[:32].view(4, 8).requires_grad_(), flat[32:].requires_grad_()
    b = Bench()
    b.opt = torch.optim.SGD([weight, bias], lr=0.1, momentum=0.9)

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(F.cross_entropy(F.linear(x, weight, bias), y))

    return b.world(step, flat, weight, bias)
