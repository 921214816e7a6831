"""Options of the test run."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("same-every-time", derandomize=True)
settings.register_profile("fuzz", print_blob=True)
settings.load_profile("same-every-time")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--accept", action="store_true", help="write what the reports look like now to tests/golden"
    )
