"""Audits are off, most files have one thread, and what is not run every day has an option."""

import os
from collections.abc import Iterator

import pytest
import torch

os.environ["FITSTEP_AUDITS"] = "off"  # Tests count runs and bytes; test_audits.py asks for them.


def pytest_addoption(parser: pytest.Parser) -> None:
    """Registers what takes too long for every day."""
    parser.addoption(
        "--every-pair", action="store_true", help="all policies on all nets, all places of sweeps"
    )


# Two workers on two cores wait for each other's threads. Kernels of several threads are the subject
# of bits/, operators/ and of the two files of memory/ that count what kernels request.
_SEVERAL_THREADS = {"bits", "operators", "test_peak.py", "test_growth.py"}


@pytest.fixture(autouse=True, scope="module")
def one_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    """Elsewhere PyTorch has one thread, in child processes too."""
    if {request.path.name, request.path.parent.name} & _SEVERAL_THREADS:
        yield
        return
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(threads)
