"""The words and figures of the report, before any template."""

from __future__ import annotations

import math

import pytest
from builders import (
    advice,
    cpu_profile,
    failed,
    measured,
    predicted,
    prediction,
    profile,
    recommendation,
    skipped,
    vector_add_workload,
)
from every import every
from hypothesis import given
from hypothesis import strategies as st
from rendering import bars, blocks

from advisor.profiles.conclusions import Recommendation
from advisor.profiles.schema import Measured, Profile
from advisor.report import words
from advisor.report.advising import findings, with_code
from advisor.report.answer import MOST, Answer, Answers, Part, parts_of, where_time_goes
from advisor.report.blocks import Table, TableCell
from advisor.report.mixes import buffers
from advisor.report.pages import page_of
from advisor.report.recommendations import prediction_verdict, verdicts
from advisor.report.tables import break_even, more_figures
from advisor.stats import Ratio, ratio_interval
from advisor.verdicts.measured import speeds


@every(("more", "seconds"), [(None, 240), (40.0, 110)])
def test_an_open_one_gives_the_command_that_would_settle_it(more: float | None, seconds: int) -> None:
    run = profile(
        recommendation=recommendation(verdict="open", bound=0.08, seconds_more=more),
        command="advisor profile w.py --max-seconds 5 -q",
    )
    run = run.model_copy(update={"method": run.method.model_copy(update={"max_seconds": 60.0})})
    command = f"`advisor profile w.py -q --max-seconds {seconds}`"
    assert verdicts(run)[0].next_step == f"Run again: {command}"


def test_a_bet_is_not_worded_as_a_verdict() -> None:
    bet = recommendation("zero-copy", verdict="open", interval=(0.6, 3.1), tied_with=("pinned",))
    verdict = prediction_verdict(cpu_profile(), prediction(recommendation=bet))
    assert verdict.headline == "Predicted: likely `zero-copy`, 2.00× faster than `pageable` (0.60 to 3.1)"
    kept = recommendation("pageable", verdict="open", speedup=1.0, interval=(1.0, 1.0))
    assert (
        prediction_verdict(cpu_profile(), prediction(recommendation=kept)).headline
        == "Predicted: likely `pageable`"
    )
    sure = recommendation("pageable", verdict="keep", bound=0.05, speedup=1.0, interval=(1.0, 1.0))
    verdict = prediction_verdict(cpu_profile(), prediction(recommendation=sure))
    assert verdict.headline == "Predicted: keep `pageable`: no other gains more than 5.0 %"
    assert verdict.remark == ""


def test_verdicts_of_measured_and_predicted_runs() -> None:
    verdict = verdicts(profile(results=(skipped(), failed(reason="killed by signal 9"))))[0]
    assert verdict.headline == "Nothing could be measured: killed by signal 9"
    assert not verdict.next_step, "the failure above it has one"
    both = verdicts(profile(results=(failed(), failed("pinned", "no memory"), skipped())))[0]
    assert both.headline == "Nothing could be measured: 2 failed, 1 skipped"
    assert both.reason == "`zero-copy`: ended with a bus error"
    told = verdicts(cpu_profile())
    assert [v.device for v in told] == [p.device.name for p in cpu_profile().predictions]
    assert all(v.basis == "predicted" and v.headline.startswith("Predicted: ") for v in told)
    first = next(iter(bars(cpu_profile()).values()))
    assert (first.value, first.between) == ("45.0 ms", "31.5 to 58.5 ms")
    assert told[0].headline.endswith("faster than `pageable` (1.3 to 3.1)")
    declined = prediction(results=(skipped("managed", "no figures"),), recommendation=None)
    verdict = prediction_verdict(cpu_profile(), declined)
    assert verdict.reason == "`managed`: no figures"
    assert blocks(page_of(cpu_profile(predictions=(declined,))), Table, "predictions") == []


def pair(frame: float, setup: float, spread: float = 0.001) -> tuple[Measured, Measured, Ratio]:
    """A row beside a baseline of 10 ms a frame and 1 s of set-up, and the ratio of their times."""
    base = measured("pageable", 0.010, spread=0.001, setup_seconds=1.0)
    row = measured("pinned", frame, spread=spread, setup_seconds=setup)
    return row, base, ratio_interval(base.rounds, row.rounds)


def paying(frame: float, setup: float, spread: float = 0.001) -> TableCell:
    return break_even(*pair(frame, setup, spread))


@every(
    ("frame", "setup", "said"),
    [
        (0.008, 2.0, "after 500 frames"),
        (0.008, 1.0005, "after 1 frame"),
        (0.008, 0.5, "immediately"),
        (0.012, 2.0, "never"),
        (0.012, 0.995, "only for 2 frames"),
        (0.012, 0.9999, "never"),
        (0.010, 2.0, "no clear difference per frame"),
    ],
)
def test_break_even(frame: float, setup: float, said: str) -> None:
    assert paying(frame, setup).value == said


def test_baseline_has_no_break_even_and_ratio_one() -> None:
    base, other = bars(profile())["pageable"], bars(profile())["pinned"]
    assert (base.baseline, base.ratio, base.ratio_between) == (True, "1.00×", "")
    rows = tuple(profile().measured().values())
    table = next(more_figures(rows, rows[0], speeds(profile())))
    assert [row.cells[-1].value for row in table.rows[:2]] == ["–", "immediately"]
    assert (other.baseline, other.ratio, other.ratio_between) == (False, "2.00×", "2.00×")
    row, base, _ = pair(0.008, 2.0)
    assert break_even(row, base, Ratio(1.25, 0.0, math.inf)).value == "not in the final"
    chosen = recommendation(speedup=1.9, interval=(1.5, 2.5))
    bar = bars(profile(recommendation=chosen))["pinned"]
    assert (bar.chosen, bar.ratio, bar.ratio_between) == (True, "1.90×", "1.50–2.50×")


def test_what_several_devices_share_is_said_once() -> None:
    found = findings(cpu_profile())
    assert [(f.rule, f.where) for f in found] == [
        ("pageable-transfer", "NVIDIA GeForce RTX 4090 and NVIDIA H200"),
        ("zero-copy-reread", "NVIDIA Jetson Orin Nano 8GB"),
    ]
    assert [f.fired for f in found] == [True, False]
    told = (
        advice(device="a", detail="first", snippet="x = 1"),
        advice(device="b", detail="second", snippet="x = 1", gain=None),
        advice(device="c", snippet="y = 1"),
    )
    run = profile(advice=told)
    first, other = findings(run)
    assert (first.devices, first.detail, other.devices) == (("a", "b"), "On a: first", ("c",))
    assert [f.snippet for f in with_code(run, (first, other, first), none=False)] == ["x = 1", "y = 1", ""]
    assert [f.snippet for f in with_code(run, (first, other), none=True)] == ["", ""]


@every("kept", [recommendation("pageable", verdict="near"), recommendation("pageable", verdict="keep")])
def test_where_the_baseline_is_kept_no_code_leads_away_from_it(kept: Recommendation) -> None:
    cards = (prediction("a"), prediction("b", recommendation=kept))
    told = (advice(device="b"), advice("pin-per-frame", device="b", strategy=None), advice(device="a"))
    run = profile(predictions=cards, advice=told)
    away = profile(predictions=cards, advice=told[:1])
    assert [bool(f.snippet) for f in with_code(run, findings(run), none=False)] == [True, False]
    assert [f.snippet for f in with_code(away, findings(away), none=False)] == [""]
    here = profile(recommendation=kept, advice=(advice(),))
    (told,) = blocks(page_of(here), Answers)[0].items
    assert (told.change, told.unchanged) == (None, "Nothing to change: keep `pageable`.")


def test_advice_for_the_recommended_strategy_comes_first() -> None:
    other = advice("b-rule", strategy="managed", snippet="b = 1")
    quiet = advice("c-rule", outcome="pass", snippet="c = 1")
    run = profile(recommendation=recommendation(), advice=(quiet, other, advice("a-rule", snippet="a = 1")))
    assert [f.rule for f in findings(run)] == ["a-rule", "b-rule", "c-rule"]
    assert [f.snippet for f in with_code(run, findings(run)[:2], none=False)] == ["a = 1", "b = 1"]


def test_words_are_cut_with_a_mark() -> None:
    assert words.line("word " * 3_000, 200).endswith("… [14,800 more characters]")
    assert words.name("n" * 100) == "n" * 59 + "…"
    assert words.name(" ") == "(no name)"
    assert words.line("a\x1b[31m\n\tb\u202ec") == "a\N{REPLACEMENT CHARACTER}[31m b\N{REPLACEMENT CHARACTER}c"
    assert words.block("x" * 10 + "\nlast line", 9) == "[11 characters cut] …\nlast line"
    assert [(s.text, s.code) for s in words.spans("use `a` or `b")] == [
        ("use ", False),
        ("a", True),
        (" or `b", False),
    ]


def test_a_buffer_copied_in_some_frames_says_in_how_many() -> None:
    ran = vector_add_workload()
    stages = tuple(s.model_copy(update={"every": 10}) if s.name == "produce" else s for s in ran.stages)
    mix = measured("hybrid-1", 0.02, placements={"a": "pinned", "b": "pinned", "c": "zero-copy"})
    run = profile(
        workload=ran.model_copy(update={"stages": stages}),
        results=(measured("pageable", 0.04), mix),
        recommendation=recommendation("hybrid-1"),
    )
    (table,) = buffers(run)
    assert [row.cells[3].value for row in table.rows][:2] == ["copied in 1 of 10 frames"] * 2


@every(("more", "drawn"), [(1.005, ["pinned", "pageable"]), (1.05, ["pinned", "registered", "pageable"])])
def test_strategies_of_nearly_the_same_time_and_memory_share_a_bar(more: float, drawn: list[str]) -> None:
    memory = predicted("pinned", 0.02).physical_bytes
    alike = predicted("registered", 0.0201, physical_bytes=int(memory * more))
    rows = (predicted("pageable", 0.04), predicted("pinned", 0.02), alike)
    assert [*bars(cpu_profile(predictions=(prediction(results=rows),)))] == drawn


# Where the time of a frame goes


def frame_of(run: Profile, strategy: str) -> list[tuple[str, str, str]]:
    return [(part.key, part.value, part.category) for part in parts_of(run)[strategy]]


def first_answer(run: Profile) -> Answer:
    return blocks(page_of(run), Answers)[0].items[0]


def test_parts_of_a_measured_frame_and_the_rest() -> None:
    stages = {"produce": 0.004, "add": 0.002, "consume": 0.003}
    row = measured("pinned", 0.020, stage_seconds=stages, transfer_seconds=0.006, synchronize_seconds=0.001)
    assert frame_of(profile(results=(row,)), "pinned") == [
        ("produce", "4.00 ms", "host"),
        ("consume", "3.00 ms", "host-2"),
        ("copies", "6.00 ms", "transfer"),
        ("add", "2.00 ms", "kernel"),
        ("synchronize", "1.00 ms", "wait"),
        ("other", "4.00 ms", "rest"),
    ]
    row = measured("pinned", 0.020, stage_seconds={"add": 0.019}, transfer_seconds=0.006)
    run = profile(results=(row, measured("pageable", 0.030)))
    assert [part.key for part in parts_of(run)["pinned"]] == ["copies", "add"]
    answer = first_answer(run)
    bar = next(bar for bar in answer.bars if bar.name == "pinned")
    assert sum(width for *_, width in answer.segments(bar)) == pytest.approx(answer.share(0.020), abs=0.02)


def test_the_reason_says_where_the_time_goes_and_what_the_baseline_spends_more_on() -> None:
    fast = measured("zero-copy", 0.010, stage_seconds={"produce": 0.004, "add": 0.005}, transfer_seconds=0.0)
    slow = measured("pageable", 0.020, stage_seconds={"produce": 0.004, "add": 0.002}, transfer_seconds=0.013)
    parts = parts_of(profile(results=(slow, fast)))
    said = where_time_goes(parts["zero-copy"], "zero-copy", parts["pageable"], "pageable")
    assert said.startswith("A frame of `zero-copy`: add 5.00 ms, produce 4.00 ms and")
    assert said.endswith("; `pageable` spends 13.0 ms more on copies.")
    alone = where_time_goes(parts["pageable"], "pageable", parts["pageable"], "pageable")
    assert "more on" not in alone
    assert where_time_goes((), "pinned", (), "pageable") == ""


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=40))
def test_many_parts_are_joined_and_none_is_lost(amounts: list[float]) -> None:
    terms = {f"host:part {i}": amount for i, amount in enumerate(amounts)}
    made = prediction(results=(predicted("pinned", sum(amounts), terms=terms),))
    (parts,) = parts_of(made).values()
    assert len(parts) <= MOST
    assert sum(part.amount for part in parts) == pytest.approx(sum(amounts))
    assert all(isinstance(part, Part) and part.amount > 0 for part in parts)
