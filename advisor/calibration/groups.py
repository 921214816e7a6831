"""The groups of measurements, in the order in which they run; each in a child process, which runs `main`."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass

from advisor.calibration import device_rates, host_memory, managed, rereads, transfers
from advisor.calibration.bench import Bench, measure_sizes
from advisor.errors import AdvisorError
from advisor.measure.backends import open_backend
from advisor.measure.jobs import CalibrationJob, GroupRun, Problem
from advisor.measure.worker import run_job


@dataclass(frozen=True)
class Group:
    name: str
    title: str
    keys: tuple[str, ...]
    """The figures it should find."""
    measure: Callable[[Bench], None]
    needs_gpu: bool = True


GROUPS = (
    Group("host", "CPU memory", host_memory.keys("host"), host_memory.measure_plain, needs_gpu=False),
    Group(
        "page-locked",
        "page-locked memory",
        (*host_memory.keys(host_memory.PINNED), *host_memory.keys(host_memory.WRITE_COMBINED)),
        host_memory.measure_page_locked,
    ),
    Group("transfers", "copies", (*transfers.keys("pinned"), *transfers.keys("pageable")), transfers.measure),
    Group("zero-copy", "mapped memory", device_rates.ZERO_COPY, device_rates.measure_zero_copy),
    Group("device", "device memory", device_rates.ON_DEVICE, device_rates.measure_on_device),
    Group("latencies", "launches", device_rates.LATENCIES, device_rates.measure_latencies),
    Group("re-reads", "re-reads of mapped memory", rereads.KEYS, rereads.measure),
    Group(
        "managed", "managed memory", (*host_memory.keys(host_memory.MANAGED), *managed.KEYS), managed.measure
    ),
)
"""Host measurements first; managed memory, which has hung GPUs, last."""


def by_name(name: str) -> Group:
    """Raises KeyError."""
    return {group.name: group for group in GROUPS}[name]


def main(arguments: list[str]) -> None:
    """In the child process; arguments JOB.json and PARENT_PID: measures one group, writes one outcome."""
    run_job(arguments, CalibrationJob, _attempt)


def _attempt(job: CalibrationJob) -> GroupRun | Problem:
    try:
        backend = open_backend(job.backend, job.gpu)
        bench = Bench(backend, measure_sizes(backend.device(), backend.free_memory()))
        by_name(job.group).measure(bench)
        return bench.result()
    except AdvisorError as error:
        return Problem.of(error)
    except Exception as error:  # a driver that fails at its first call, say
        return Problem(cause="device", message=str(error) or repr(error), detail=traceback.format_exc())
