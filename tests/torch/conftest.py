"""Audits are off, and what is not run every day has an option."""

import os

import pytest

os.environ["FITSTEP_AUDITS"] = "off"  # Tests count runs and bytes; test_audits.py asks for them.


def pytest_addoption(parser: pytest.Parser) -> None:
    """Registers what takes too long for every day."""
    parser.addoption(
        "--every-pair", action="store_true", help="all policies on all nets, all places of sweeps"
    )
