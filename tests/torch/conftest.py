"""The helpers beside the tests are imported by their names."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
os.environ["FITSTEP_AUDITS"] = "off"  # Tests count runs and bytes; test_audits.py asks for them.


def pytest_addoption(parser: pytest.Parser) -> None:
    """Registers what takes too long for every day."""
    parser.addoption(
        "--every-pair", action="store_true", help="all policies on all nets, all places of sweeps"
    )
