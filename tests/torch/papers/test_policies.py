"""Policies of published systems, on small models with a host tier: the bits of plain PyTorch."""

import itertools
from collections.abc import Callable

import pytest
import torch
from fitstep_kit import models
from fitstep_kit.measures.bits import Fingerprint, differences, fingerprint
from fitstep_kit.subjects.cases import CASES, Step, Trainee, build
from fitstep_kit.subjects.equal_bits import Run, drive, train_plain
from torch import Tensor, nn

import fitstep
from fitstep import _core

STEPS = 3
FAMILIES = ("vdnn", "vdnn++", "tf-swap", "layrub", "recompute-")


def trained(
    case: str, policy: str, budget: str | int, *, host_codes: bool = False
) -> tuple[Run, fitstep.Report]:
    """Three steps of a case; of a plan that took the policy's word for everything."""
    trainee: Trainee = build(CASES[case], tiny=True)
    function = trainee.functions[0]
    step = fitstep.compile(
        function.call,
        function.example,
        budget,
        policy=policy,
        host_budget="900%",
        host_codes=host_codes,
        effort=1,
    )
    run = drive(trainee, [step], STEPS)
    report = step.report()
    step.close()
    return run, report


def assert_traffic_is_planned(report: fitstep.Report) -> None:
    """What the lanes have counted is what the plans say, to the byte."""
    variants = report.variants
    assert report.evicted_bytes == sum(one.runs * one.evicted_bytes for one in variants)
    assert report.prefetched_bytes == sum(one.runs * one.prefetched_bytes for one in variants)


@pytest.mark.parametrize(
    ("case", "policy", "moves"),
    # All of them run on programs of all kinds in tests/property/; these on real kernels.
    [
        ("vgg16", "vdnn-all-p", True),
        ("vgg16", "recompute-cheap", False),
        ("resnet50_nchw", "vdnn++-conv-p", True),
        ("unet", "layrub", True),
        ("unet", "vdnn-conv-m", True),
        ("lstm", "layrub-inter", True),
        ("lstm", "vdnn-all-m", False),  # Nothing convolves there.
    ],
)
def test_a_policy_runs_with_equal_bits(case: str, policy: str, moves: bool) -> None:
    run, report = trained(case, policy, "300%")
    assert differences(run.bits, train_plain(case, STEPS).bits) == []
    steady = report.variants[-1]
    assert report.violations == 0
    assert steady.evicted_bytes == steady.prefetched_bytes
    assert (steady.evicted_bytes > 0) == moves
    assert_traffic_is_planned(report)
    assert (steady.recomputed_ops > 0) <= (policy == "recompute-cheap")


def test_what_vdnnpp_offloads_is_compressed() -> None:
    run, report = trained("vgg16", "vdnn++-all-m", "300%", host_codes=True)
    assert differences(run.bits, train_plain("vgg16", STEPS).bits) == []
    steady = report.variants[-1]
    assert steady.coded_copies
    saved = sum(copy.size_bytes - copy.written_bytes for copy in steady.coded_copies)
    assert saved > steady.evicted_bytes // 4, str(report)
    assert steady.evicted_bytes + saved == steady.prefetched_bytes, "as many as are decoded"
    assert steady.host_tier_bytes >= steady.prefetched_bytes, "there is room for all"
    reserved = sum(one.runs * one.prefetched_bytes for one in report.variants)
    assert report.evicted_bytes < reserved, "how much goes there follows from the data"
    assert report.evicted_bytes == report.prefetched_bytes


@pytest.mark.parametrize("policy", ["tf-swap", "vdnn++-dyn"])
def test_a_policy_that_looks_at_the_budget_offloads_only_for_it(policy: str) -> None:
    _, roomy = trained("unet", policy, "300%")
    with pytest.raises(fitstep.BudgetTooSmall) as too_small:
        trained("unet", policy, 1)
    assert too_small.value.least_found_bytes is not None
    run, tight = trained("unet", policy, too_small.value.least_found_bytes)
    assert roomy.variants[-1].evicted_bytes == 0 < tight.variants[-1].evicted_bytes
    assert_traffic_is_planned(tight)
    assert differences(run.bits, train_plain("unet", STEPS).bits) == []


class Job:
    """A model whose step takes what the benchmarks' nets of the papers take."""

    def __init__(self, make: Callable[[], nn.Module], *example: Tensor) -> None:
        torch.manual_seed(3)
        self.model = make()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.example = example

    def step(self, *example: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss: Tensor = self.model(*example).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss

    def train(self, step: Step) -> Fingerprint:
        torch.manual_seed(4)
        losses = [step(*self.example).detach().clone() for _ in range(STEPS)]
        return fingerprint(model=self.model, optimizer=self.optimizer, losses=losses)


def googlenet() -> Job:
    image = torch.linspace(-1, 1, 3 * 224 * 224).view(1, 3, 224, 224)
    return Job(lambda: models.googlenet(10), image)


def translation() -> Job:
    words = torch.arange(12).view(2, 6) % 20
    return Job(lambda: models.Seq2Seq(vocab=20, width=16, layers=1), words, words)


@pytest.mark.parametrize(
    ("make", "policy"),
    [(googlenet, "vdnn-all-p"), (translation, "layrub"), (translation, "recompute-cheap")],
)
def test_a_policy_runs_inceptions_and_attention_with_equal_bits(
    make: Callable[[], Job], policy: str
) -> None:
    ours = make()
    step = fitstep.compile(
        ours.step, ours.example, "300%", policy=policy, host_budget="900%", effort=1
    )
    found = ours.train(step)
    assert_traffic_is_planned(step.report())
    evicted_bytes = step.report().variants[-1].evicted_bytes
    step.close()
    plain = make()
    assert differences(found, plain.train(plain.step)) == []
    assert (evicted_bytes > 0) == (policy != "recompute-cheap")


NETS = ("vgg16", "resnet50_nchw", "unet", "lstm", "googlenet", "translation")
POLICIES = [name for name in _core.policy_names() if name.startswith(FAMILIES)]
MADE = {"googlenet": googlenet, "translation": translation}


def ours_and_plain(net: str, policy: str) -> tuple[Fingerprint, Fingerprint, fitstep.Report]:
    """The bits of three steps, both ways, in plenty of room."""
    if net not in MADE:
        run, report = trained(net, policy, "300%")
        return run.bits, train_plain(net, STEPS).bits, report
    job, plain = MADE[net](), MADE[net]()
    step = fitstep.compile(
        job.step, job.example, "300%", policy=policy, host_budget="900%", effort=1
    )
    found, report = job.train(step), step.report()
    step.close()
    return found, plain.train(plain.step), report


def pairs(config: pytest.Config) -> list[tuple[str, str]]:
    """Each policy with one net; with --every-pair, with all of them."""
    if config.getoption("--every-pair", default=False):
        return list(itertools.product(POLICIES, NETS))
    return [(policy, NETS[i % len(NETS)]) for i, policy in enumerate(POLICIES)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if {"policy", "net"} <= {*metafunc.fixturenames}:
        metafunc.parametrize(("policy", "net"), pairs(metafunc.config))


def test_every_policy_trains_with_equal_bits_and_the_traffic_of_its_plan(
    policy: str, net: str
) -> None:
    found, plain, report = ours_and_plain(net, policy)
    assert differences(found, plain) == []
    assert report.violations == 0
    assert_traffic_is_planned(report)
    steady = report.variants[-1]
    assert steady.moves
    takes_maps = policy.startswith(("vdnn", "vdnn++")) and "none" not in policy
    if takes_maps and "dyn" not in policy and net != "lstm" and net != "translation":
        assert steady.evicted_bytes > 0


def test_names_are_known_and_an_unknown_one_lists_them() -> None:
    names = _core.policy_names()
    assert all(any(name.startswith(family) for name in names) for family in FAMILIES)
    with pytest.raises(ValueError, match="vdnn-dyn"):
        fitstep.compile(googlenet().step, (), "1GiB", policy="vdnn")
