"""Two profiles of a script: lines matched by text and file, and gates on the bytes of a frame."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import altered, profile
from every import every
from rendering import blocks as blocks_of
from running import Command
from script_runs import DOWNLOAD, FRAMES, SIZE, UPLOAD, download, place, repeats, script_run, upload, wait

from advisor.profiles.crossings import Place, ScriptRun
from advisor.profiles.schema import Profile
from advisor.profiles.trials import Trial, Trials
from advisor.report import blocks
from advisor.report.pages import lines_comparison_page
from advisor.rules import advise
from advisor.verdicts.comparing.gates import parse_gates
from advisor.verdicts.comparing.lines import compare_lines, judge_lines, promises


def of(run: ScriptRun, **fields: str) -> Profile:
    return advise.conclude(profile(results=()).model_copy(update={"script": run, **fields}), ())


def for_two_devices(made: Profile) -> Profile:
    """The same with its advice for another device too."""
    other = [altered(line, "advice", device="Other") for line in made.script.advice]
    return altered(made, "script", advice=(*made.script.advice, *other))


BASE = of(script_run(upload(), download(), wait()))
MOVED = altered(upload(count=2 * FRAMES, bytes=2 * FRAMES * SIZE), "place", line=UPLOAD + 3)
HEAD = of(script_run(MOVED, wait()), created="2026-02-01")


def test_lines_are_matched_by_text_and_file() -> None:
    (frames,) = compare_lines(BASE, HEAD).frames
    found = {line.place.text: line.outcome for line in frames.lines}
    assert found == {"d = cupy.asarray(gray)": "more", "h += float(m.sum())": "same", "out = m.get()": "gone"}
    assert frames.base.copied_bytes == frames.head.copied_bytes == 2 * SIZE


MORE = of(script_run(upload(bytes=FRAMES * SIZE * 12 // 10), download(), wait()))
WHOLE = of(script_run(upload(loop=None)).model_copy(update={"loops": ()}))
EMPTY, FAILED = (
    of(script_run().model_copy(update={"crossings": (), "loops": (), "exit_code": code})) for code in (0, 1)
)


@every(
    ("base", "head", "limit", "status"),
    [
        (BASE, MORE, 10, "passed"),
        (BASE, MORE, 9, "failed"),
        (MORE, BASE, 0, "passed"),
        (BASE, WHOLE, 10, "inconclusive"),
        (EMPTY, EMPTY, 10, "passed"),
        (EMPTY, WHOLE, 10, "failed"),
        (EMPTY, FAILED, 10, "failed"),
        (FAILED, FAILED, 10, "passed"),
    ],
)
def test_the_gate_is_on_bytes_of_a_frame(base: Profile, head: Profile, limit: int, status: str) -> None:
    (ruling,) = judge_lines(compare_lines(base, head), parse_gates([f"crossing=+{limit}%"]))
    assert ruling.status == status


def test_a_failed_gate_names_the_lines_that_copy_more() -> None:
    more = of(script_run(upload(bytes=2 * FRAMES * SIZE), download(), wait(count=2 * FRAMES)))
    (ruling,) = judge_lines(compare_lines(BASE, more), parse_gates(["crossing=+10%"]))
    assert ruling.reasons[0].endswith(f", by line {upload().place.line} `{upload().place.text}`")


def test_a_loop_that_only_one_has_is_named() -> None:
    assert compare_lines(BASE, WHOLE).unmatched == ("the loop at line 7 of BASE",)


def test_the_page_says_how_many_bytes_more_and_which_lines() -> None:
    more = for_two_devices(of(script_run(upload(repeats=repeats(same=19)), wait()), created="2026-02-01"))
    found = compare_lines(BASE, more)
    page = lines_comparison_page(found, judge_lines(found, parse_gates(["crossing=+10%"])))
    (verdict,) = blocks_of(page, blocks.Verdicts, "verdict")[0].items
    assert verdict.headline == "50 % fewer bytes in a frame"
    assert "610 µs of it, now 330 µs" in verdict.remark
    (table,) = blocks_of(page, blocks.Table, "lines")
    assert table.rows[0].name == f"{DOWNLOAD}  {place(DOWNLOAD).text}"
    assert [line.advice.rule for line in found.new_advice] == ["repeated-upload"]


REUSED = Place(file="camera.py", line=DOWNLOAD, text="m.get(out=out)")
PINNED = script_run(upload(), download(place=REUSED, memory="pinned"), wait())
FASTER = altered(PINNED, "loops.*", frame_seconds=5.8e-3, interval_seconds=(5.75e-3, 5.85e-3))
FOLLOWED = of(FASTER, created="2026-02-01")
"""HEAD with the advice for the download followed."""


def test_a_frame_of_followed_advice_is_held_against_what_was_promised() -> None:
    (kept,) = promises(found := compare_lines(for_two_devices(BASE), FOLLOWED))
    gains = (a.advice.gain for a in BASE.script.advice if a.place.line == DOWNLOAD)
    (advised,) = {gain.seconds_per_frame for gain in gains if gain}
    assert ([p.line for p in kept.places], kept.seconds, kept.tried) == ([DOWNLOAD], advised, False)
    assert (kept.saved, kept.between) == (pytest.approx(3e-4), pytest.approx((1.5e-4, 4.5e-4)))
    (told,) = blocks_of(lines_comparison_page(found), blocks.Bullets)[0].texts
    assert told.endswith("of a frame (estimated), got 300 µs (150 µs to 450 µs).")


@every(("rule", "is_tried"), [("hidden-host-copy", False), ("pageable-transfer", True)])
def test_a_change_that_was_tried_promises_what_it_gave_then(rule: str, is_tried: bool) -> None:
    """One that another rule advised for the same line does not."""
    trial = Trial(
        name="reuse-12", kind="reuse", place=place(DOWNLOAD), title="reuse", outcome="faster",
        rule=rule, frame_seconds=5.7e-3,
    )  # fmt: skip
    tried = altered(BASE, "", trials=Trials(frame_seconds=6.0e-3, loop=0, trials=(trial,), seconds=9.0))
    (kept,) = promises(compare_lines(tried, FOLLOWED))
    assert (kept.seconds == pytest.approx(3e-4), kept.tried) == (is_tried, is_tried)


def test_nothing_was_promised_to_an_advised_line_that_moved_only() -> None:
    """Its rule still fires, on the line's new text; on another GPU no time is comparable."""
    renamed = place(DOWNLOAD).model_copy(update={"text": "shown = m.get()"})
    assert not [*promises(compare_lines(BASE, of(script_run(upload(), download(place=renamed), wait()))))]
    other = altered(FOLLOWED, "device", name="Another GPU")
    assert not [*promises(compare_lines(BASE, other))]


def test_the_command_has_the_exit_codes_of_gates(command: Command, tmp_path: Path) -> None:
    files = [tmp_path / "base.json", tmp_path / "head.json"]
    more = of(script_run(upload(bytes=FRAMES * SIZE * 2), download(), wait()), created="2026-02-01")
    for file, each in zip(files, (BASE, more), strict=True):
        each.save(file)
    called = ["compare", *map(str, files), "--out", str(tmp_path / "out")]
    passed = command(*called, "--fail-if", "crossing=+60%")
    assert (passed.code, "Loop at line 7" in passed.out) == (0, True)
    assert command(*called, "--fail-if", "crossing=+10%").code == 1
    refused = command(*called, "--fail-if", "slower=5%")
    assert (refused.code, "crossing=+10%" in refused.err) == (2, True)
    assert command("compare", str(files[0]), str(files[0]), "--fail-if", "crossing=+1%").code == 2
