"""What it takes to predict one workload for the whole catalogue."""

from __future__ import annotations

import time
from statistics import median

from advisor.devices.catalogue import load, names
from advisor.model.predict import predict
from tests.benchmarks.timing import at_most

GOAL_SECONDS = 0.5


def run() -> None:
    """All devices, all strategies, the entries read from disk: beyond the CPU run."""
    from published_cases import matrix_product

    profile, seconds = matrix_product(1024), []
    for _ in range(5):
        begin = time.perf_counter()
        for name in names():
            predict(profile, load(name))
        seconds.append(time.perf_counter() - begin)
    at_most(f"predicting one workload for {len(names())} devices", median(seconds), GOAL_SECONDS, "{:.2f} s")
