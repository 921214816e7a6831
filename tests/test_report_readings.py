"""What the machine read, what it warned of, and what else a measured row says, in every form."""

from __future__ import annotations

import re
from typing import Any

import pytest
from builders import cpu_profile, measured, predicted, prediction, profile, recommendation
from every import every
from rendering import bars, blocks

from advisor.model.measured import by_class
from advisor.profiles.conclusions import Objective, Preferences
from advisor.profiles.schema import Profile
from advisor.report import answering, profile_page, words
from advisor.report.answer import legend, parts_of
from advisor.report.blocks import Table
from advisor.report.pages import page_of, render
from advisor.verdicts.scores import counted


def test_host_copies_are_a_part_of_the_frame() -> None:
    row = measured("pinned", 0.020, host_copy_seconds=0.001)
    parts = {part.key: part.value for part in parts_of(profile(results=(row,)))["pinned"]}
    labels = list(parts)
    assert labels.index("consume") < labels.index("host copy") < labels.index("copies")
    assert parts["host copy"] == "1.00 ms"
    assert "host copy" not in [part.key for part in parts_of(profile())["pinned"]]
    terms = {"host:a": 0.01, "host-copy": 0.01}
    model = prediction(results=(predicted("pinned", 0.02, terms=terms),))
    assert legend(parts_of(model).values()) == {"a": "host", "host copy": "host-copy"}


def overlapped(objective: Objective = "throughput", **fields: Any) -> Profile:
    stages = {"produce": 0.006, "add": 0.001, "consume": 0.001}
    row = measured("pinned-pipelined", 0.010, latency_seconds=0.020, stage_seconds=stages, **fields)
    chosen = recommendation("pinned-pipelined")
    wanted = Preferences(objective=objective)
    return profile(results=(measured("pageable", 0.020), row), recommendation=chosen, preferences=wanted)


def test_tables_and_charts_show_a_frame_as_the_objective_counts_it() -> None:
    run = overlapped("time", transfer_seconds=0.009)
    page = page_of(run)
    bar = bars(run)["pinned-pipelined"]
    assert bar.value == "20.0 ms"
    assert bar.latency == "latency; 10.0 ms between finished frames, 100 frames/s"
    low, high = run.measured()["pinned-pipelined"].interval_seconds
    assert bar.between == words.seconds_between(2 * low, 2 * high)
    (table,) = blocks(page, Table, "stages")
    assert [row.cells[0].value for row in table.rows] == ["20.0 ms", "20.0 ms"]
    assert "the time per frame is the latency" in table.caption
    assert counted(run).measured()["pageable"] == run.measured()["pageable"]
    assert bars(overlapped("throughput"))["pinned-pipelined"].value == "10.0 ms"


# The model's error


@every("form", ["txt", "details", "md", "html"])
def test_what_was_asked_for_comes_first_and_the_other_is_told(form: str) -> None:
    """Of a measured profile, `profile --target` begins with the measurement, `predict` with the targets."""
    run = profile(recommendation=recommendation(), predictions=(prediction("Jetson TX2"),))
    order = []
    for targets_first in (False, True):
        page = render(page_of(run, targets_first=targets_first), form).split("</head>")[-1]
        text = re.sub(r"<[^>]*>|`", "", page)
        order.append([text.index(verdict) for verdict in ("Use pinned: 2.00×", "Predicted: use pinned")])
    assert order[0] == sorted(order[0])
    assert order[1] == sorted(order[1], reverse=True)
    alone = profile(recommendation=recommendation())
    assert render(page_of(alone, targets_first=True), form) == render(page_of(alone), form)


@every(
    ("memory_class", "right", "told"),
    [
        ("discrete", 0.905, "right in 90 % of 42 published cases"),
        ("discrete", 0.5, "right in 50 % of 42 published cases"),
        ("tegra-coherent", 1.0, "checked on 2 published cases"),
        ("discrete-hmm", None, "not checked"),
    ],
)
def test_how_often_the_model_was_right_is_told_where_it_was_checked_often(
    monkeypatch: pytest.MonkeyPatch, memory_class: str, right: float | None, told: str
) -> None:
    """Two choices are no share."""
    known = {
        name: row.model_copy(update={"right_share": right if name == memory_class else row.right_share})
        for name, row in by_class().items()
    }
    monkeypatch.setattr(answering, "by_class", lambda: known)
    monkeypatch.setattr(profile_page, "by_class", lambda: known)
    device = prediction("GH200").device.model_copy(update={"memory_class": memory_class})
    run = cpu_profile(predictions=(prediction("GH200").model_copy(update={"device": device}),))
    page = " ".join(render(page_of(run), "details").split())
    assert f"model was {told} of {memory_class} memory" in page
    row = known.get(memory_class)  # type: ignore[call-overload]
    if row is None:
        assert "nothing published to check memory class discrete-hmm" in page
    else:
        assert ("a rule of three lines: " in page) == (row.choices >= 5)
        assert f"of {row.figures} figures in range" in page
