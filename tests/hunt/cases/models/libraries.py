"""Small models of transformers, and DistributedDataParallel in one process."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from kit import add, case
from torch import Tensor, nn
from worlds import Bench, sgd

os.environ["HF_HUB_OFFLINE"] = "1"


def causal(family: str, length: int, masked: bool, cast: bool = False, **changes: Any) -> Any:
    """A causal language model whose step returns its gradients."""

    def build() -> Any:
        import transformers

        config = getattr(transformers, f"{family}Config")(
            hidden_size=32,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=4,
            vocab_size=50,
            **changes,
        )
        b = Bench(getattr(transformers, f"{family}ForCausalLM")(config), make=sgd)

        def step(ids: Tensor, mask: Tensor | None) -> list[Tensor]:
            b.opt.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=cast):
                out = b.model(input_ids=ids, labels=ids, attention_mask=mask, use_cache=False)
            out.loss.backward()
            grads = [p.grad.clone() for p in b.model.parameters()]
            b.opt.step()
            return grads

        def batch(k: int) -> Any:
            ids = torch.randint(50, (2, length))
            if not masked:
                return ids, None
            mask = torch.ones_like(ids)
            mask[0, length - k :] = 0
            return ids, mask

        return b.world(step, calls=[batch(k) for k in (0, 0, 2, 0)])

    return build


GROUPED = {"num_key_value_heads": 2}
add("library", "qwen_grouped_heads", causal("Qwen2", 64, masked=False, **GROUPED))
add("library", "llama_masked", causal("Llama", 32, masked=True, **GROUPED))
add("library", "llama_masked_in_bfloat16", causal("Llama", 32, masked=True, cast=True, **GROUPED))
add("library", "neox_with_dropout", causal("GPTNeoX", 16, masked=True, hidden_dropout=0.2))


@case("library")
def image_classifier_with_problem_type() -> Any:
    import transformers

    sizes = {"hidden_size": 16, "intermediate_size": 16, "image_size": 8, "patch_size": 4}
    config = transformers.ViTConfig(
        num_hidden_layers=1, num_attention_heads=2, num_labels=4, num_channels=1, **sizes
    )
    b = Bench(transformers.ViTForImageClassification(config))

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(b.model(pixel_values=x, labels=y).loss)

    calls = [(torch.randn(2, 1, 8, 8), torch.randint(4, (2,))) for _ in range(4)]
    return step, calls, lambda: (b.model, b.opt, b.model.config.problem_type)


@case("library")
def text_classifier_with_accuracy() -> Any:
    import transformers

    config = transformers.BertConfig(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_labels=3,
    )
    b = Bench(transformers.BertForSequenceClassification(config))

    def step(ids: Tensor, mask: Tensor, y: Tensor) -> float:
        out = b.model(input_ids=ids, attention_mask=mask, labels=y)
        b.update(out.loss)
        return (out.logits.argmax(-1) == y).float().mean().item()

    def batch(n: int) -> Any:
        ids = torch.randint(40, (3, n))
        return ids, (ids > 5).long(), torch.randint(3, (3,))

    return b.world(step, calls=[batch(n) for n in (8, 8, 6, 8, 10)])


def distributed(model: nn.Module) -> nn.Module:
    if not dist.is_initialized():
        rendezvous = f"file://{tempfile.mkdtemp()}/store"
        dist.init_process_group("gloo", init_method=rendezvous, rank=0, world_size=1)
    return nn.parallel.DistributedDataParallel(model)


def halved(_, bucket):  # Without annotations, as torch would look at them.
    """A communication hook that shows whether it ran."""
    future: Any = torch.futures.Future()
    future.set_result(bucket.buffer() / 2)
    return future


@case("distributed")
def distributed_wrapper() -> Any:
    b = Bench(make=sgd)
    wrapped = distributed(b.model)
    wrapped.register_comm_hook(None, halved)

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(F.cross_entropy(wrapped(x), y))

    return b.world(step)


@case("distributed")
def distributed_reduced_by_hand() -> Any:
    b = Bench(make=sgd)
    distributed(nn.Linear(1, 1))

    def step(x: Tensor, y: Tensor) -> Tensor:
        b.opt.zero_grad()
        loss = b.loss(x, y)
        loss.backward()
        for p in b.model.parameters():
            dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
            p.grad /= dist.get_world_size() + 1
        b.opt.step()
        return loss

    return b.world(step)
