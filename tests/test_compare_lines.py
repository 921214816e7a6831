"""Two profiles of a script: lines matched by text and file, and gates on the bytes of a frame."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import profile
from rendering import blocks as blocks_of
from running import Command
from script_runs import DOWNLOAD, FRAMES, SIZE, download, place, repeats, script_run, upload, wait

from advisor import pipeline
from advisor.errors import UsageError
from advisor.profiles.crossings import Crossing, ScriptRun
from advisor.profiles.schema import Profile
from advisor.report import blocks
from advisor.report.pages import lines_comparison_page
from advisor.verdicts.comparing.gates import of_versions, parse_gates
from advisor.verdicts.comparing.lines import compare_lines, judge_lines


def of(run: ScriptRun, **fields: str) -> Profile:
    return pipeline.conclude(profile(results=()).model_copy(update={"script": run, **fields}), ())


def moved(crossing: Crossing, by: int) -> Crossing:
    """The same line further down in the file."""
    return crossing.model_copy(
        update={"place": crossing.place.model_copy(update={"line": crossing.place.line + by})}
    )


BASE = of(script_run(upload(), download(), wait()))
HEAD = of(
    script_run(moved(upload(count=2 * FRAMES, bytes=2 * FRAMES * SIZE), 3), wait()), created="2026-02-01"
)


def status(base: Profile, head: Profile, gate: str) -> str:
    (ruling,) = judge_lines(compare_lines(base, head), parse_gates([gate]))
    return ruling.status


def test_lines_are_matched_by_text_and_file() -> None:
    (frames,) = compare_lines(BASE, HEAD).frames
    found = {line.place.text: line.outcome for line in frames.lines}
    assert found == {"d = cupy.asarray(gray)": "more", "h += float(m.sum())": "same", "out = m.get()": "gone"}
    assert frames.base.copied_bytes == frames.head.copied_bytes == 2 * SIZE


def test_the_gate_is_on_bytes_of_a_frame() -> None:
    more = of(script_run(upload(bytes=FRAMES * SIZE * 12 // 10), download(), wait()))
    assert status(BASE, more, "crossing=+10%") == "passed"
    assert status(BASE, more, "crossing=+9%") == "failed"
    assert status(more, BASE, "crossing=+0%") == "passed"


def test_a_loop_that_only_one_has_is_inconclusive() -> None:
    whole = of(script_run(upload(loop=None)).model_copy(update={"loops": ()}))
    found = compare_lines(BASE, whole)
    assert found.unmatched == ("the loop at line 7 of BASE",)
    assert status(BASE, whole, "crossing=+10%") == "inconclusive"
    empty = of(script_run().model_copy(update={"crossings": (), "loops": ()}))
    assert status(empty, empty, "crossing=+10%") == "passed"


def test_the_page_says_how_many_bytes_more_and_which_lines() -> None:
    more = of(script_run(upload(repeats=repeats(same=19)), wait()), created="2026-02-01")
    found = compare_lines(BASE, more)
    page = lines_comparison_page(found, judge_lines(found, parse_gates(["crossing=+10%"])))
    (verdict,) = blocks_of(page, blocks.Verdicts, "verdict")[0].items
    assert verdict.headline == "50 % fewer bytes in a frame"
    assert "610 µs of it, now 330 µs" in verdict.remark
    (table,) = blocks_of(page, blocks.Table, "lines")
    assert table.rows[0].name == f"{DOWNLOAD}  {place(DOWNLOAD).text}"
    assert [line.advice.rule for line in found.new_advice] == ["repeated-upload"]


def test_the_command_has_the_exit_codes_of_gates(command: Command, tmp_path: Path) -> None:
    files = [tmp_path / "base.json", tmp_path / "head.json"]
    more = of(script_run(upload(bytes=FRAMES * SIZE * 2), download(), wait()), created="2026-02-01")
    for file, each in zip(files, (BASE, more), strict=True):
        each.save(file)
    called = ["compare", *map(str, files), "--out", str(tmp_path / "out")]
    passed = command(*called, "--fail-if", "crossing=+60%")
    assert passed.code == 0
    assert "Loop at line 7" in passed.out
    assert command(*called, "--fail-if", "crossing=+10%").code == 1
    assert command(*called, "--fail-if", "slower=5%").code == 2
    assert "crossing=+10%" in command(*called, "--fail-if", "slower=5%").err
    assert command("compare", str(files[0]), str(files[0]), "--fail-if", "crossing=+1%").code == 2


def test_a_run_of_versions_has_no_such_gate() -> None:
    with pytest.raises(UsageError, match="two profiles of a script"):
        of_versions(parse_gates(["crossing=+10%"]), anyway=False)
