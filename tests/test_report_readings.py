"""What the machine read, what it warned of, and what else a measured row says, in every form."""

from __future__ import annotations

import re
from typing import Any

import pytest
from builders import (
    all_strategies,
    cpu_profile,
    failed,
    host_state,
    measured,
    predicted,
    prediction,
    profile,
    recommendation,
    skipped,
)
from every import every
from rendering import bars, blocks, shown

from advisor.profiles.conclusions import Objective, Preferences
from advisor.profiles.schema import Profile
from advisor.profiles.system_state import Environment
from advisor.report import words
from advisor.report.charts import Chart, frame_chart, overlap_note, prediction_chart
from advisor.report.machine import environment, method
from advisor.report.pages import page_of
from advisor.report.tables import gaps
from advisor.verdicts.scores import counted


def on(**environment: Any) -> Profile:
    """A run on a machine that read this."""
    return profile(environment=Environment(system="L", machine="m", python="3", **environment))


def test_host_facts_are_told_and_missing_ones_left_out() -> None:
    told = {e.label: e.value for e in environment(on(host=host_state()))}
    assert told["NUMA nodes"] == "0 (CPUs 0-15, 64.0 GiB)"
    assert (told["Memory limit (cgroup)"], told["Locked-memory limit"]) == ("unlimited", "8.00 MiB")
    assert told["Runs in"] == "a container"
    assert "NUMA node of the GPU" not in told
    assert "NUMA nodes" not in {e.label for e in environment(profile())}


@every(("number", "further"), [(0, ""), (3, ""), (5, "and 2 more")])
def test_at_most_three_warnings_stand_beside_the_verdict(number: int, further: str) -> None:
    run = on(warnings=tuple(f"caution {i} ends" for i in range(number)))
    html = shown(run, "html")
    beside = html[html.index('id="verdict"') : html.index('id="stages"')]
    unfolded = beside.partition("<details><summary>and")[0]
    assert re.findall(r"caution \d", unfolded) == [f"caution {i}" for i in range(min(number, 3))]
    assert re.findall(r"and \d more", beside) == ([further] if further else [])
    assert len(re.findall(r"<span>caution \d", html)) == number, "each once"
    markdown, text = shown(run, "md"), shown(run, "details")
    assert markdown.count("**Warning:**") == min(number, 3)
    assert further in markdown
    assert ("… 2 more warnings: --details" in shown(run, "txt")) == bool(further)
    assert [text.count(f"caution {i} ends") for i in range(number)] == [1] * number


def test_host_copies_are_a_part_of_the_frame() -> None:
    row = measured("pinned", 0.020, host_copy_seconds=0.001)
    segments = frame_chart(profile(results=(row,))).bars[0].segments
    labels = [s.label for s in segments]
    assert labels.index("consume") < labels.index("host copy") < labels.index("copies")
    assert [s.value for s in segments if s.label == "host copy"] == ["1.00 ms"]
    without = frame_chart(profile()).bars[0].segments
    assert "host copy" not in [s.label for s in without]
    terms = {"host:a": 0.01, "host-copy": 0.01}
    model = prediction_chart(prediction(results=(predicted("pinned", 0.02, terms=terms),)), 1)
    assert [(k.label, k.category) for k in model.legend] == [("a", "host"), ("host copy", "host-copy")]


def overlapped(objective: Objective = "throughput", **fields: Any) -> Profile:
    stages = {"produce": 0.006, "add": 0.001, "consume": 0.001}
    row = measured("pinned-pipelined", 0.010, latency_seconds=0.020, stage_seconds=stages, **fields)
    chosen = recommendation("pinned-pipelined")
    wanted = Preferences(objective=objective)
    return profile(results=(measured("pageable", 0.020), row), recommendation=chosen, preferences=wanted)


def test_parts_of_overlapping_frames_are_drawn_as_long_as_they_took() -> None:
    run = overlapped(transfer_seconds=0.009)
    bar = frame_chart(run).bars[1]
    assert sum(float(s.width[:-1]) for s in bar.segments) == pytest.approx(100 * 0.017 / 0.0204, rel=0.01)
    assert 100 * bar.whisker[2] < sum(float(s.width[:-1]) for s in bar.segments)
    assert "`pinned-pipelined`" in overlap_note(run)
    assert overlap_note(profile()) == ""
    assert "may add up to more than the time per frame" in shown(run, "html")
    assert "may exceed" not in shown(profile(), "html")


def test_what_overlapping_parts_leave_of_a_frame_is_not_called_other() -> None:
    segments = frame_chart(overlapped(transfer_seconds=0.0)).bars[1].segments
    assert [s.label for s in segments] == ["produce", "consume", "add"]


def test_latency_stands_beside_the_rate_of_frames() -> None:
    run = overlapped()
    assert [bar.latency for bar in bars(run).values()] == ["latency 20.0 ms, 100 frames/s", ""]
    for text in (shown(run, "html").replace("\N{NO-BREAK SPACE}", " "), shown(run, "md"), shown(run, "txt")):
        assert "latency 20.0 ms, 100 frames/s" in text
    assert "latency" not in shown(profile(), "md") + shown(profile(), "txt")


def test_tables_and_charts_show_a_frame_as_the_objective_counts_it() -> None:
    run = overlapped("time", transfer_seconds=0.009)
    page = page_of(run)
    bar = bars(run)["pinned-pipelined"]
    assert bar.value == "20.0 ms"
    assert bar.latency == "latency; 10.0 ms between finished frames, 100 frames/s"
    low, high = run.measured()["pinned-pipelined"].interval_seconds
    assert bar.between == words.seconds_between(2 * low, 2 * high)
    chart = blocks(page, Chart)[0]
    assert [bar.value for bar in chart.bars] == ["20.0 ms", "20.0 ms"]
    assert "the latency of a frame" in chart.notes[1]
    assert counted(run).measured()["pageable"] == run.measured()["pageable"]
    assert bars(overlapped("throughput"))["pinned-pipelined"].value == "10.0 ms"


def test_predictions_show_a_frame_as_the_objective_counts_it() -> None:
    pipelined = predicted("pinned-pipelined", 0.01, latency_seconds=0.02)
    made = cpu_profile().model_copy(update={"predictions": (prediction(results=(pipelined,)),)})
    bar = bars(made)["pinned-pipelined"]
    assert (bar.value, bar.amount) == ("20.0 ms", 0.02)
    assert bar.latency == "latency; 10.0 ms between finished frames, 100 frames/s"


def test_predictions_say_beside_table_and_chart_what_overlapping_frames_mean() -> None:
    pipelined = predicted("pinned-pipelined", 0.01, latency_seconds=0.02)
    made = prediction(results=(pipelined, predicted("pageable", 0.02)))
    run = cpu_profile(predictions=(made, prediction("NVIDIA H200")))
    told = "latency; 10.0 ms between finished frames, 100 frames/s"
    assert shown(run, "txt").count(f"\n  (pinned-pipelined: {told})\n") == 1
    assert told.removeprefix("latency; ") in shown(run, "md")
    first, second = blocks(page_of(run), Chart, "predictions")
    assert first.notes[1].startswith(
        "With overlapping frames (`pinned-pipelined`), the bracket shows the latency of a frame"
    )
    assert len(second.notes) == 1
    assert shown(run, "html").count("the bracket shows the latency of a frame") == 1


def test_hints_are_listed_by_buffer() -> None:
    told = {e.label: e.value for e in method(all_strategies())}
    assert (
        told["cudaMemAdvise under managed-advised"]
        == "a: preferred-device and accessed-by-host; b: read-mostly"
    )
    assert not [e for e in method(profile()) if e.label.startswith("cudaMemAdvise")]


def test_strategies_with_the_same_reason_share_a_row() -> None:
    without = (skipped("a", "why"), skipped("b", "other"), skipped("c", "why"))
    assert [(g.names, g.text) for g in gaps(without)] == [(("a", "c"), "why"), (("b",), "other")]
    run = profile(results=(measured("pageable", 0.01), *without))
    assert "<code>a</code>, <code>c</code>: <span>why</span>" in shown(run, "html")
    assert "- `a`, `c` skipped: why\n" in shown(run, "md")
    assert "a and c skipped: why" in shown(run, "details")
    declined = prediction(results=(predicted("pageable", 0.01), *without))
    assert "<code>a</code>, <code>c</code>: <span>why</span>" in shown(
        cpu_profile(predictions=(declined,)), "html"
    )


def test_failures_of_which_the_processes_said_different_things_stay_apart() -> None:
    rows = (failed("a", "killed", "one"), failed("b", "killed", "two"), failed("c", "killed", "one"))
    assert [(g.names, g.detail) for g in gaps(rows)] == [(("a", "c"), "one"), (("b",), "two")]
