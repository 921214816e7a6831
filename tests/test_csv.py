"""`--format csv`: one flat table, in which measured and predicted are told apart and nothing is made up."""

from __future__ import annotations

import csv
import io
import json
from functools import partial

from builders import (
    cpu_profile,
    failed,
    measured,
    prediction,
    profile,
    recommendation,
    skipped,
    sweep_of,
    vector_add_workload,
)
from running import Command
from script_runs import played
from test_comparing import later

from advisor.devices.catalogue import load
from advisor.profiles.sweeps import Point
from advisor.report.pages import page_of, render
from advisor.rules import advise


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_each_strategy_is_a_row_and_what_is_absent_is_empty() -> None:
    results = (measured("pageable", 0.040), measured("pinned", 0.020), skipped(), failed())
    made = profile(results=results, recommendation=recommendation(), predictions=(prediction(),))
    rows = table(render(page_of(made), "csv"))
    assert [row["kind"] for row in rows[:4]] == ["measured", "measured", "skipped", "failed"]
    assert {row["kind"] for row in rows[4:]} == {"predicted", "skipped"}
    memory = made.measured()["pinned"].footprint.physical_bytes
    expected = {"strategy": "pinned", "frame_seconds": "0.02", "recommended": "true", "gain": "2.0",
                "memory_bytes": str(memory), "energy_joules": "", "p99_seconds": ""}  # fmt: skip
    assert {head: rows[1][head] for head in expected} == expected
    assert {rows[2]["frame_seconds"], rows[2]["memory_bytes"], rows[4]["setup_seconds"]} == {""}
    assert rows[3]["reason"] == "ended with a bus error"
    assert {row["parameter_n"] for row in rows} == {str(made.workload.parameters["n"])}


def test_text_is_quoted_and_every_value_of_a_sweep_is_there() -> None:
    bad = failed(reason='a "quoted", long\nreason'), failed("pinned", reason="=1+1")
    text = render(page_of(profile(results=bad, recommendation=None)), "csv")
    assert text.count("\r\n") == 3
    assert [row["reason"] for row in table(text)] == ['a "quoted", long\nreason', "'=1+1"]
    profiles = [cpu_profile(workload=vector_add_workload(n)) for n in (1, 2)]
    swept = sweep_of(*profiles, Point(4, status="failed", reason="no memory"))
    rows = table(render(page_of(swept), "csv"))
    assert {row["parameter_n"] for row in rows} == {"1", "2", "4"}
    assert (rows[-1]["kind"], rows[-1]["reason"]) == ("failed", "no memory")
    assert len(rows) == 1 + 2 * len(table(render(page_of(profiles[0]), "csv")))


def test_lines_of_a_script_have_totals_where_measured_and_one_occurrence_where_predicted() -> None:
    script = profile(results=()).model_copy(update={"script": played()})
    made = advise.conclude(script, [load("rtx-2060")])
    rows = table(render(page_of(made), "csv"))
    by_kind = {row["kind"]: row for row in reversed(rows)}
    assert set(by_kind) == {"measured", "predicted"}
    assert by_kind["measured"]["once_seconds"] == by_kind["predicted"]["bytes"] == ""
    low, likely, high = (by_kind["predicted"][f"once_{end}seconds"] for end in ("low_", "", "high_"))
    assert float(low) <= float(likely) <= float(high)


def test_compare_adds_the_ratios(command: Command) -> None:
    profile().save("base.json")
    later(results=(measured("pageable", 0.048), measured("pinned", 0.020))).save("head.json")
    called = partial(command, "compare", "base.json", "head.json", "--out", "-", "--format")
    ratios = {(row["side"], row["strategy"]): row["over_base"] for row in table(called("csv").out)}
    assert (ratios["BASE", "pageable"], float(ratios["HEAD", "pageable"])) == ("", 0.048 / 0.040)
    rows = [row for row in json.loads(called("json").out)["rows"] if row["strategy"] == "pageable"]
    assert [row.get("over_base") for row in rows] == [None, 0.048 / 0.040]
