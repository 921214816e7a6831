"""`--format csv`: one flat table, in which measured and predicted are told apart and nothing is made up."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

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
from running import FILES, QUICK, Command
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
    fast = rows[1]
    assert (fast["strategy"], fast["frame_seconds"], fast["recommended"]) == ("pinned", "0.02", "true")
    assert float(fast["memory_bytes"]) == made.measured()["pinned"].footprint.physical_bytes
    assert float(fast["gain"]) == recommendation().speedup
    assert [fast["energy_joules"], fast["p99_seconds"]] == ["", ""]
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


def test_commands_write_it_beside_the_others_and_compare_adds_the_ratios(
    command: Command, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    said = command("profile", FILES / "counter.py", "--no-gpu", *QUICK, "--format", "csv,json")
    assert said.code == 0, said.err
    folder = Path("advisor-report")
    held, rows = json.loads((folder / "profile.json").read_text()), table((folder / "report.csv").read_text())
    medians = [str(row.get("median_seconds", "")) for row in held["results"]]
    assert [row["frame_seconds"] for row in rows[: len(medians)]] == medians
    assert command("report", folder, "--format", "csv", "--out", "-").out.splitlines()[1:] == [
        *(folder / "report.csv").read_text().splitlines()[1:]
    ]
    profile().save(tmp_path / "base.json")
    later(results=(measured("pageable", 0.048), measured("pinned", 0.020))).save(tmp_path / "head.json")
    compared = table(command("compare", "base.json", "head.json", "--format", "csv", "--out", "-").out)
    ratios = {(row["side"], row["strategy"]): row["over_base"] for row in compared}
    assert float(ratios["HEAD", "pageable"]) == 0.048 / 0.040
    assert ratios["BASE", "pageable"] == ""
    document = command("compare", "base.json", "head.json", "--format", "json", "--out", "-").out
    assert [
        row.get("over_base") for row in json.loads(document)["rows"] if row["strategy"] == "pageable"
    ] == [None, 0.048 / 0.040]
