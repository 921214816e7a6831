"""The page of a script: the ceiling first, lines whose figures add up, measured and predicted kept apart."""

from __future__ import annotations

import re

import pytest
from builders import profile
from every import every
from rendering import blocks as blocks_of
from rendering import markup, shown
from script_runs import FRAMES, UPLOAD, download, lock, place, played, repeats, script_run, upload, wait

from advisor.devices.catalogue import load
from advisor.profiles.crossings import PROCESSES, ScriptRun, SecondCopies
from advisor.profiles.schema import Profile
from advisor.profiles.trials import Patch, Trial, Trials
from advisor.report import blocks
from advisor.report.pages import page_of, render
from advisor.rules import advise
from advisor.verdicts.ceilings import ceilings, elsewhere, scopes

CARD = load("rtx-2060")


def of(run: ScriptRun, *targets: str) -> Profile:
    script = profile(results=()).model_copy(update={"script": run})
    return advise.conclude(script, [load(name) for name in targets])


def test_the_ceiling_of_copies_and_calls() -> None:
    run = script_run()
    (ceiling,), (scope,) = ceilings(run), scopes(run)
    assert ceiling.copy_seconds == pytest.approx(0.59e-3)
    assert ceiling.wait_seconds == pytest.approx(0.02e-3)
    kernels, other = elsewhere(scope, ceiling)
    assert kernels == pytest.approx(1.88e-3)
    assert ceiling.seconds + kernels + other == pytest.approx(6.1e-3)
    copy = upload(asynchronous=True, host_seconds=FRAMES * 1e-5, stream_seconds=FRAMES * 4e-4)
    assert ceilings(script_run(copy))[0].seconds == pytest.approx(4e-4)
    fetched = download(asynchronous=False, host_seconds=FRAMES * 3e-4, stream_seconds=FRAMES * 4e-4)
    assert ceilings(script_run(fetched))[0].seconds == pytest.approx(3e-4), "its call waits for all of it"
    longer = upload(stream_seconds=FRAMES * 1.0)
    assert ceilings(script_run(longer))[0].share == pytest.approx(1.0)


def test_a_screen_has_the_ceiling_the_lines_and_the_advice() -> None:
    text = shown(of(script_run()), "txt")
    assert len(text.splitlines()) <= 22
    assert max(map(len, text.splitlines())) <= 80
    assert "Memory can change about 610 µs of 6.10 ms (10 %)" in text
    assert re.search(r"13 .*1 × wait +1\.90 ms +holds back line 10", text)
    assert re.search(r"10  Keep one page-locked array for `gray` +\d+ µs of 6.10 ms  \(estimated\)", text)


def test_the_measured_ceiling_has_its_interval_which_the_frame_bounds() -> None:
    run = script_run()
    twice = SecondCopies(frames=96, seconds=0.8e-3, interval_seconds=(0.7e-3, 7e-3))
    loops = (run.loops[0].model_copy(update={"second_copies": twice}),)
    text = " ".join(shown(of(run.model_copy(update={"loops": loops})), "txt").split())
    assert "Memory can change 820 µs of 6.10 ms (13 %, 12 % to 100 %)" in text
    assert "in 96 of these frames" in text
    assert "copies 800 µs (13 %)" in text


@every("width", [60, 80, 140])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for run in (of(script_run()), of(played(), "rtx-2060", "orin-nano")):
        for form in ("txt", "details"):
            lines = render(page_of(run), form, width=width).splitlines()
            assert max(map(len, lines)) <= width


def test_little_to_gain_is_the_answer_and_no_advice_follows() -> None:
    run = of(script_run(upload(host_seconds=FRAMES * 0.1e-3), wait()))
    text = shown(run, "txt")
    assert "Memory is not your problem: 98 % of the frame is elsewhere" in text
    assert "kernels waited for 1.88 ms (31 %)" in " ".join(text.split())
    assert run.script.advice == ()


def test_predicted_figures_never_stand_as_measured() -> None:
    run = of(played(), "rtx-2060")
    page = page_of(run)
    assert page.basis == "predicted"
    assert {v.basis for each in blocks_of(page, blocks.Verdicts) for v in each.items} == {"predicted"}
    tables = [table for table in blocks_of(page, blocks.Table) if table.kind == "lines"]
    assert all(table.predicted for table in tables)
    assert [c.head for c in tables[0].columns if c.basis == "predicted"] == [CARD.name]
    assert "time" not in [c.head for c in tables[0].columns]
    page = page_of(of(script_run(), "orin-nano"))
    tables = [table for table in blocks_of(page, blocks.Table, "predicted") if table.kind == "lines"]
    assert [table.predicted for table in tables] == [True]
    assert not any(table.predicted for table in blocks_of(page, blocks.Table, "lines"))


def test_the_source_stands_beside_its_figures_and_totals_add_up() -> None:
    page = page_of(of(script_run()))
    (source,) = blocks_of(page, blocks.Source)
    row = source.rows[UPLOAD - 1]
    assert (row.number, row.text, row.time, row.size) == (
        UPLOAD,
        "    d = cupy.asarray(gray)",
        "155 ms",
        "477 MiB",
    )
    (facts,) = blocks_of(page, blocks.Facts, "totals")
    seconds = {fact.label: fact.value for fact in facts.facts}
    assert seconds["The run"] == "3.50 s"
    assert seconds["Everything else"] == "2.07 s"


def test_how_a_script_ended_and_what_was_not_seen_is_told() -> None:
    text = shown(of(script_run(exit_code=1, error="ValueError: no frame")), "details")
    assert "exit code 1: ValueError: no frame" in " ".join(text.split())
    assert "Allocations of other threads" in text


def test_nothing_that_crosses_is_one_line() -> None:
    run = script_run().model_copy(update={"crossings": (), "unseen": ()})
    text = shown(of(run), "txt")
    assert text.splitlines()[1:] == [
        "about 0.86 %)",
        "",
        "  Nothing crosses between host and GPU: memory is not your problem.",
    ]
    elsewhere = run.model_copy(update={"unseen": (f"{PROCESSES} a process that the script starts",)})
    assert "not your problem" not in shown(of(elsewhere), "txt")
    little = script_run(upload(host_seconds=FRAMES * 1e-6, stream_seconds=None))
    assert "not your problem" in shown(of(little), "txt")
    assert "not your problem" not in shown(of(little.model_copy(update={"unseen": elsewhere.unseen})), "txt")


def test_what_has_no_predicted_time_is_not_0_s_nor_unworthy() -> None:
    run = of(played(lock(place=place(UPLOAD))), "rtx-2060", "orin-nano")
    text = " ".join(f"{shown(run, 'txt')} {shown(run, 'details')}".split())
    assert "0 s" not in text
    assert "Nothing that crosses has a predicted time" in text
    assert "page-locking in each frame is not predicted (line 10)" in text


def test_hostile_text_of_a_script_stays_text() -> None:
    hostile = place(UPLOAD).model_copy(update={"text": "d = asarray('<script>`|\x1b[31m')"})
    run = of(script_run(upload(place=hostile, repeats=repeats(same=19))))
    for form in ("html", "md", "details"):
        text = shown(run, form)
        assert "\x1b" not in text
        assert "asarray('<script>" not in (markup(text) if form == "html" else "")
    assert "- code" not in shown(run, "md")


def test_trials_are_told_with_their_patch_in_every_form() -> None:
    measured = {"frame_seconds": 0.0035, "speedup": 1.16, "interval": (1.08, 1.25)}
    tried = Trials(
        frame_seconds=0.004,
        loop=0,
        trials=(
            Trial(
                name="lock-11", title="page-lock gray", outcome="faster", promised_seconds=8e-4, **measured
            ),
            Trial(name="reuse-14", title="reuse out", outcome="refused", reason="the script keeps them"),
        ),
        compared=("1 printed line",),
        patch=Patch(text="--- a/s.py\n+++ b/s.py\n", lines=2, equal=True, speedup=1.2, interval=(1.1, 1.3)),
        seconds=9.0,
    )
    made = page_of(of(script_run()).model_copy(update={"trials": tried}))
    for form in ("html", "md", "txt"):
        text = " ".join(render(made, form).replace("\xa0", " ").split())
        assert "1.16×" in text, form
        assert "1.08× to 1.25×" in text, form
        assert form == "txt" or "the script keeps them" in text, form  # a screen wraps it in its column
        assert ("+++ b/s.py" in text) == (form != "txt"), form
        assert "Apply the patch of 2 lines: 1.20× (1.10× to 1.30×) as fast, results equal." in text, form
        assert "these few runs of the patch" not in text, form
    patch = tried.patch.model_copy(update={"interval": (0.95, 1.5)}) if tried.patch else None
    made = page_of(of(script_run()).model_copy(update={"trials": tried.model_copy(update={"patch": patch})}))
    told = "results equal; each change was proved faster, these few runs of the patch do not tell it."
    assert told in " ".join(render(made, "txt").replace("\xa0", " ").split())


@every("form", ["html", "md", "txt"])
def test_a_patch_without_proved_results_is_code_to_consider(form: str) -> None:
    reason = "two unchanged runs differ in what line 14 downloads"
    unproved = Trial(name="lock-11", title="page-lock gray", outcome="open", reason="faster, but")
    undecided = Trial(name="lock-12", title="page-lock rgb", outcome="open")
    patch = Patch(text="--- a/s.py\n+++ b/s.py\n", lines=2, speedup=1.2, interval=(1.1, 1.3), reason=reason)
    tried = Trials(frame_seconds=0.004, loop=0, trials=(unproved, undecided), patch=patch, seconds=9.0)
    page = page_of(of(script_run()).model_copy(update={"trials": tried}))
    text = " ".join(render(page, form).replace("\xa0", " ").split())
    assert (
        "No patch is written, only 2 lines of code to consider, applied to a copy: nothing promised" in text
    )
    assert f"got 1.20× (1.10× to 1.30×): {reason}." in text
    assert ("Code to consider: 2 lines" in text, "+++ b/s.py" in text) == (form != "txt", form != "txt")
    if form != "txt":  # a screen has no room for outcomes
        assert "undecided: faster, but" in text
        assert "undecided: more frames could tell" in text
    assert "Patch:" not in text
    assert "Apply the patch" not in text
