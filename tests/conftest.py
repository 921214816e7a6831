"""Options of the test run, and what its processes inherit."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

settings.register_profile("same-every-time", derandomize=True, deadline=None)
settings.register_profile("fuzz", print_blob=True, deadline=None)
settings.load_profile("same-every-time")

# Tests run in as many processes as there are processors; each takes one.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
# A shell starts what runs in its background without Ctrl-C; the programs that are interrupted here need it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--accept", action="store_true", help="write what the reports look like now to tests/golden"
    )
