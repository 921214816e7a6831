"""A clock that only the stand-in for CuPy advances: what a trial measures depends on no other process."""

import time

_now = [0.0]


def pass_time(seconds):
    _now[0] += seconds


def _perf_counter():
    _now[0] += 1e-6
    return _now[0]


time.perf_counter = _perf_counter
time.pass_time = pass_time
