"""fitstep against plain PyTorch, bit for bit, from the very first step on.

Most cases at their least budget, where most is recomputed and every byte is shared; some with room
to spare. The full sizes are the benchmark's (benchmarks/promises/same_bits.py).
"""

import pytest
from fitstep_kit.subjects.cases import CASES
from fitstep_kit.subjects.equal_bits import (
    differing_bits,
    share_of_plain_peak,
    train_at_least,
    train_fitstep,
    train_plain,
)

# Seconds to compile each: the rest of the table is the benchmark's.
AT_LEAST_BUDGET = (
    "mlp", "resnet50_channels_last", "unet", "gpt", "gpt_checkpointed", "lstm", "dcgan",
    "hf_llama", "hf_resnet", "optimizer_sgd_nesterov", "optimizer_adamw_fused",
    "optimizer_nadam", "optimizer_radam", "optimizer_adagrad", "onecycle_inside", "step_outside",
    "clip", "autocast_gpt", "autocast_resnet", "ema",
    "resume_before", "resume_between", "short_batch", "validation",
)  # fmt: skip
# Their least budgets take half a minute to find.
BELOW_PLAIN = ("hf_t5", "micro_inside", "micro_across")
WITH_ROOM = ("mlp", "vgg16", "resnet50_nchw", "gpt", "lstm", "optimizer_radam", "validation")


def test_the_lists_name_cases() -> None:
    assert {*AT_LEAST_BUDGET, *BELOW_PLAIN, *WITH_ROOM} <= CASES.keys()


@pytest.mark.parametrize("case", AT_LEAST_BUDGET)
def test_same_bits_at_the_least_budget(case: str) -> None:
    run = train_at_least(case)
    assert differing_bits(case, run) == []
    assert run.losses == train_plain(case).losses


@pytest.mark.parametrize(
    ("case", "share"), [(one, 1.0) for one in WITH_ROOM] + [(one, 0.7) for one in BELOW_PLAIN]
)
def test_same_bits_at_a_share_of_the_plain_peak(case: str, share: float) -> None:
    budget = share_of_plain_peak(case, share)
    run = train_fitstep(case, budget)
    assert differing_bits(case, run) == []
    assert run.held_bytes <= budget
