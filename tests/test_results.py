"""From samples to rows: raw samples kept, the rest derived from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import running
from builders import footprint, vector_add_workload
from every import every
from rendering import Accepted

from advisor import stats
from advisor.measure.jobs import Problem, ReferenceRun, Sample
from advisor.measure.launcher import Ended
from advisor.measure.results import combine, failure
from advisor.profiles.figures import PageLocking

WORKLOAD = vector_add_workload()


def sample(**parts: Any) -> Sample:
    return running.sample(
        **{
            "frame_seconds": (9.0, 10.0, 11.0),
            "breakdown": (with_add(3),),
            "host_seconds": {"produce": 1, "consume": 1.5},
            **parts,
        }
    )


def combined(*samples: Sample) -> Any:
    return combine("pinned", samples, WORKLOAD, confidence=0.9)


LOCKS = [PageLocking(calls=calls, seconds=calls / 1000) for calls in (7.0, 1.0, 2.0)]
PRINTS = [
    footprint(pageable=n).model_copy(update={"peak_process_bytes": peak})
    for n, peak in ((1, None), (2, 50), (3, 70))
]


@every(
    ("figure", "values", "expected"),
    [
        ("cpu_seconds", (0.1, 0.4, 0.2, None), 0.2),
        ("cpu_seconds", (None,), None),
        ("page_locking", LOCKS, LOCKS[2]),
        ("setup_seconds", (1.0, 9.0, 2.0), 2.0),
        ("footprint", PRINTS, PRINTS[2]),
        ("latency_seconds", (1.0, 5.0, 2.0), 2.0),
        ("latency_seconds", (None, 3.0), 3.0),
        ("latency_seconds", (None,), None),
    ],
)
def test_a_figure_is_the_median_of_the_processes_that_have_it_or_the_largest(
    figure: str, values: Sequence[Any], expected: Any
) -> None:
    assert getattr(combined(*(sample(**{figure: value}) for value in values)), figure) == expected


def test_samples_are_kept_in_order_with_their_process_their_median_and_its_interval() -> None:
    rounds = ((9.0, 10.0, 11.0), (5.0, 4.0))
    row = combined(*(sample(frame_seconds=frames) for frames in rounds))
    assert (row.strategy, row.rounds) == ("pinned", rounds)
    assert row.median_seconds == stats.median(rounds)
    assert row.interval_seconds == stats.median_interval(rounds, confidence=0.9)
    assert combined(sample(frame_seconds=(1e-6,)), sample(frame_seconds=(1.0,))).interval_seconds[0] > 0


def with_add(seconds: float, **more: float) -> dict[str, float]:
    return {"to-device": 2, "device:add": seconds, "to-host": 0.5, **more}


@every(
    ("breakdowns", "add", "copies", "host_copy", "waits", "path"),
    [
        ([(with_add(3),)], 3, 2.5, None, 2.0, 7.5),
        ([(with_add(3), with_add(5)), (with_add(4),)], 4, 2.5, None, 1.0, 7.5),
        ([({"device:add": 30},)], 30, 0, None, 0.0, 30.0),
        ([({},)], 0, 0, None, 7.5, 7.5),
        ([(with_add(3, **{"host-copy": 1.0}),)], 3, 2.5, 1.0, 1.0, 7.5),
    ],
    ids=["one", "several", "longer than the frame", "nothing", "copies of foreign data"],
)
def test_what_is_in_no_step_of_a_frame_of_10_s_is_waiting(
    breakdowns: list[Any], add: float, copies: float, host_copy: float | None, waits: float, path: float
) -> None:
    row = combined(*(sample(breakdown=each) for each in breakdowns))
    assert list(row.stage_seconds.items()) == [("produce", 1), ("add", add), ("consume", 1.5)]
    assert (row.transfer_seconds, row.host_copy_seconds) == (copies, host_copy)
    assert (row.synchronize_seconds, row.device_path_seconds) == (waits, path)


CAUSES = ("differs", "memory", "state", "bug", "device", "raised", "twin", "wrong")
HOW = ("timeout", "memory", "late", "died")


def test_a_failed_row_says_why_and_what_to_do(accepted: Accepted) -> None:
    """By its process's problem; without one, by how that ended."""
    ended = {cause: Ended(Problem(cause=cause, message="oh", detail="Bus error"), "died") for cause in CAUSES}
    ended |= {f"process {how}": Ended(None, how, "ended with signal 7", "Bus error") for how in HOW}
    rows = {name: failure("pinned", each) for name, each in ended.items()}
    assert {(row.strategy, row.status, row.detail) for row in rows.values()} == {
        ("pinned", "failed", "Bus error")
    }
    told = (f"{name}: {row.reason}\n  next: {row.next_step}\n" for name, row in rows.items())
    accepted("".join(told), "failed-rows.txt")
    given = Problem(cause="memory", message="oh", next_step="See.")
    assert failure("pinned", Ended(given, "died")).next_step == "See."
    assert failure("pinned", Ended(ReferenceRun(), "died", "ended with signal 7")) == failure(
        "pinned", Ended(None, "died", "ended with signal 7")
    )
