"""From samples to rows: raw samples kept, the rest derived from them."""

from __future__ import annotations

from typing import Any

from builders import footprint, vector_add_workload
from every import every

from advisor import stats
from advisor.measure.jobs import Problem, ReferenceRun, Sample
from advisor.measure.launcher import Ended
from advisor.measure.results import combine, failure
from advisor.profiles.figures import PageLocking

WORKLOAD = vector_add_workload()


def frame(**parts: float) -> dict[str, float]:
    """Seconds by label; `device_x` stands for device:x, `to_host` for to-host."""
    names = {"to_host": "to-host", "to_device": "to-device"}
    return {names.get(k, k.replace("_", ":", 1)): v for k, v in parts.items()}


def sample(**parts: Any) -> Sample:
    row: dict[str, Any] = {
        "frame_seconds": (9.0, 10.0, 11.0),
        "stopped": "precise",
        "breakdown": (frame(to_device=2, device_add=3, to_host=0.5),),
        "host_seconds": {"produce": 1, "consume": 1.5},
        "transfer_bytes": {"to-device": 8, "to-host": 4},
        "setup_seconds": 0.5,
        "footprint": footprint(pageable=16),
        "verified": True,
    }
    return Sample(**{**row, **parts})


def combined(*samples: Sample) -> Any:
    return combine("pinned", samples, WORKLOAD, confidence=0.9)


def test_samples_are_kept_in_order_with_their_process() -> None:
    row = combined(sample(), sample(frame_seconds=(5.0, 4.0), stopped="time is up"))
    assert row.strategy == "pinned"
    assert row.frame_seconds == (9.0, 10.0, 11.0, 5.0, 4.0)
    assert row.frames_per_round == (3, 2)
    assert row.rounds == ((9.0, 10.0, 11.0), (5.0, 4.0))
    assert row.stopped == ("precise", "time is up")


def test_cpu_seconds_are_the_median_of_those_that_were_taken() -> None:
    taken = combined(*(sample(cpu_seconds=s) for s in (0.1, 0.4, 0.2)), sample())
    assert taken.cpu_seconds == 0.2
    assert combined(sample()).cpu_seconds is None


def test_page_locking_is_the_median_of_the_processes() -> None:
    locks = [PageLocking(calls=calls, seconds=calls / 1000) for calls in (7.0, 1.0, 2.0)]
    assert combined(*(sample(page_locking=each) for each in locks)).page_locking == locks[2]


def test_the_median_and_its_interval_are_those_of_the_statistics() -> None:
    rounds = [(1.0, 2.0, 3.0), (2.0, 2.5, 3.5)]
    row = combined(*(sample(frame_seconds=frames) for frames in rounds))
    assert row.median_seconds == stats.median(rounds)
    assert row.interval_seconds == stats.median_interval(rounds, confidence=0.9)
    assert row.interval_seconds != stats.median_interval(rounds, confidence=0.5)


def test_the_breakdown_is_the_median_over_all_processes() -> None:
    def with_add(seconds: float) -> dict[str, float]:
        return frame(to_device=2, device_add=seconds, to_host=0.5)

    row = combined(sample(breakdown=(with_add(3), with_add(5))), sample(breakdown=(with_add(4),)))
    assert row.stage_seconds == {"produce": 1, "add": 4, "consume": 1.5}
    assert list(row.stage_seconds) == ["produce", "add", "consume"]
    assert row.transfer_seconds == 2.5


def test_what_is_in_no_step_is_waiting_and_launching() -> None:
    row = combined(sample())
    assert row.synchronize_seconds == 2.0
    assert row.device_path_seconds == 10.0 - 1.0 - 1.5


def test_parts_that_are_longer_than_the_frame_leave_no_negative_rest() -> None:
    row = combined(sample(breakdown=(frame(device_add=30),)))
    assert row.synchronize_seconds == 0.0
    assert row.device_path_seconds == 30.0


def test_a_step_that_did_not_happen_takes_no_time() -> None:
    row = combined(sample(breakdown=({},), transfer_bytes={}))
    assert row.stage_seconds == {"produce": 1, "add": 0, "consume": 1.5}
    assert row.transfer_seconds == 0
    assert row.transfer_bytes == {}


def test_setup_is_the_median_and_the_footprint_the_largest() -> None:
    prints = [footprint(pageable=n).model_copy(update={"peak_process_bytes": p}) for n, p in PEAKS]
    samples = [sample(setup_seconds=s, footprint=f) for s, f in zip((1.0, 9.0, 2.0), prints, strict=True)]
    row = combined(*samples)
    assert row.setup_seconds == 2.0
    assert row.footprint == prints[2]


PEAKS = ((1, None), (2, 50), (3, 70))


def ended(outcome: Any) -> Ended:
    return Ended(outcome, "died", "ended with signal 7", "Bus error")


@every(
    ("cause", "said"),
    [
        ("differs", "its results are wrong: oh"),
        ("memory", "not enough memory: oh"),
        ("state", "the workload changed the device's state: oh"),
        ("bug", "oh"),
        ("device", "oh"),
        ("raised", "the workload failed: oh"),
        ("wrong", "oh"),
    ],
)
def test_a_problem_becomes_a_failed_row(cause: Any, said: str) -> None:
    row = failure("pinned", ended(Problem(cause=cause, message="oh", detail="traceback")))
    assert (row.strategy, row.status, row.reason, row.detail) == ("pinned", "failed", said, "traceback")


def test_host_copies_of_foreign_data_are_a_part_of_their_own() -> None:
    parts = {**frame(to_device=2, device_add=3, to_host=0.5), "host-copy": 1.0}
    row = combined(sample(breakdown=(parts,)))
    assert row.host_copy_seconds == 1.0
    assert row.transfer_seconds == 2.5
    assert row.synchronize_seconds == 1.0
    assert row.device_path_seconds == 10.0 - 1.0 - 1.5
    assert combined(sample()).host_copy_seconds is None, "there was none, which is not 0"


def test_the_latency_is_the_median_of_the_processes_that_have_one() -> None:
    assert combined(*(sample(latency_seconds=s) for s in (1.0, 5.0, 2.0))).latency_seconds == 2.0
    assert combined(sample(), sample(latency_seconds=3.0)).latency_seconds == 3.0
    assert combined(sample()).latency_seconds is None


@every("outcome", [None, ReferenceRun()])
def test_a_process_that_left_no_figures(outcome: Any) -> None:
    row = failure("pinned", ended(outcome))
    assert (row.reason, row.detail) == ("ended with signal 7", "Bus error")


@every(
    ("ended", "step"),
    [
        (Ended(None, "timeout", "did not finish within 5.00 s"), "--timeout"),
        (Ended(None, "memory", "exhausted the memory"), "--set"),
        (Ended(None, "died", "the process was killed by SIGKILL"), "that the file runs with python"),
        (Ended(Problem(cause="memory", message="no room"), "finished"), "--set"),
        (Ended(Problem(cause="raised", message="E", next_step="See w.py."), "finished"), "See w.py."),
    ],
)
def test_a_failure_says_what_to_do(ended: Ended, step: str) -> None:
    assert step in failure("pinned", ended).next_step
