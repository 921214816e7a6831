"""Rates of this CPU's memory, by a clock that ticks."""

from __future__ import annotations

from itertools import accumulate, chain

from advisor.measure.cpu_memory import host_rates


def test_the_best_of_three_counts_and_each_rate_is_its_own() -> None:
    taken = [0.002, 0.001, 0.004, 0.02, 0.01, 0.04]
    ticks = accumulate(chain.from_iterable((1.0, seconds) for seconds in taken))
    rates = host_rates(lambda: next(ticks), 1 << 20)
    found = (rates.read_bytes_per_second, rates.write_bytes_per_second)
    assert [round((1 << 20) / rate, 6) for rate in found] == [0.001, 0.01]
