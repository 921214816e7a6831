"""The words and figures of the report, before any template."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

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
    sweep_of,
    vector_add_workload,
)
from every import every
from hypothesis import given
from hypothesis import strategies as st
from rendering import Accepted, bars, blocks, shown
from test_report import TRACEBACK, broken, late

from advisor.model.measured import by_class
from advisor.profiles.conclusions import Gain, Objective, Preferences, Recommendation
from advisor.profiles.schema import Measured, Profile
from advisor.profiles.sweeps import Point, ProfileSet
from advisor.report import answering, profile_page, words
from advisor.report.advising import findings, with_code
from advisor.report.answer import MOST, Answer, Answers, Part, legend, parts_of, where_time_goes
from advisor.report.blocks import Banners, Table, TableCell
from advisor.report.markdown import escape, prose
from advisor.report.mixes import buffers
from advisor.report.pages import page_of, render
from advisor.report.recommendations import excerpt, failures, headline, prediction_verdict, verdicts
from advisor.report.tables import break_even, more_figures
from advisor.stats import Ratio, ratio_interval
from advisor.verdicts.measured import speeds
from advisor.verdicts.reasons import with_reason
from advisor.verdicts.scores import counted


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
    said = where_time_goes(parts, "zero-copy", "pageable")
    assert said.startswith("A frame of `zero-copy`: add 5.00 ms, produce 4.00 ms and")
    assert said.endswith("; `pageable` spends 13.0 ms more on copies.")
    alone = where_time_goes(parts, "pageable", "pageable")
    assert "more on" not in alone
    assert where_time_goes({}, "pinned", "pageable") == ""


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=40))
def test_many_parts_are_joined_and_none_is_lost(amounts: list[float]) -> None:
    terms = {f"host:part {i}": amount for i, amount in enumerate(amounts)}
    made = prediction(results=(predicted("pinned", sum(amounts), terms=terms),))
    (parts,) = parts_of(made).values()
    assert len(parts) <= MOST
    assert sum(part.amount for part in parts) == pytest.approx(sum(amounts))
    assert all(isinstance(part, Part) and part.amount > 0 for part in parts)


# Failures come before any verdict, and what is in doubt is no recommendation


def doubtful(run: Profile) -> bool:
    return any(banner.label == "doubtful" for banner in blocks(page_of(run), Banners))


def changed(run: Profile) -> bool:
    return any(answer.change for told in blocks(page_of(run), Answers) for answer in told.items)


def test_which_failures_leave_doubt_and_which_are_one() -> None:
    assert doubtful(broken())
    assert not changed(broken()), "no code to change before the workload runs"
    assert changed(cpu_profile())
    run = cpu_profile(results=(measured("pageable", 0.06), late("zero-copy")))
    assert not doubtful(run)
    assert verdicts(run)[0].headline.startswith("Predicted: use `zero-copy`")
    assert [f.headline for f in failures(run)] == ["`zero-copy` failed: ValueError: late"]
    first, second = (failed(s, f"{n} of 1000 elements differ") for s, n in (("a", 999), ("b", 1000)))
    (told,) = failures(profile(results=(first, second)))
    assert told.headline == "Every strategy that was run (`a` and `b`) failed: 999 of 1000 elements differ"
    assert told.next_step
    assert len(failures(profile(results=(first, failed("b", "killed"))))) == 2


def test_excerpt_is_the_users_own_frame_and_the_error() -> None:
    assert excerpt(TRACEBACK).splitlines() == [
        '  File "/home/w.py", line 12, in use',
        '    if frame > 40: raise ValueError("late")',
        "ValueError: late",
    ]
    assert excerpt("Bus error\nKilled") == ""
    long = TRACEBACK + "\n" + "\n".join(f"line {i} {'x' * 200}" for i in range(20))
    assert len(excerpt(long).splitlines()) == 5
    assert excerpt(long).splitlines()[-1].startswith("line 19 xxx")
    assert max(map(len, shown(broken(), "txt").splitlines())) <= 80
    assert max(map(len, excerpt(long).splitlines())) <= 74


@every("dies", ["was killed by SIGKILL", "exited with code 0 without a result"])
def test_nothing_predicted_gives_the_reason(dies: str) -> None:
    declined = prediction(results=(skipped("pinned", "nothing was traced"),), recommendation=None)
    run = cpu_profile(results=(failed("pageable", f"the process {dies}"),), predictions=(declined,))
    assert verdicts(run)[0].headline == f"Nothing predicted: the process {dies}"
    assert not doubtful(run), "there are no predictions to doubt"
    run = cpu_profile(predictions=(declined,))
    assert verdicts(run)[0].headline == "Nothing predicted: nothing was traced"


def test_one_strategy_is_compared_with_nothing() -> None:
    chosen = recommendation(speedup=None, interval=None, baseline=None)
    (told,) = verdicts(profile(results=(measured("pinned", 0.02),), recommendation=chosen))
    assert told.headline == "Only `pinned` was run: nothing was compared"
    assert "--strategy" in told.next_step
    only = prediction(results=(predicted("pinned", 0.02),), recommendation=chosen)
    run = cpu_profile(predictions=(only,))
    assert verdicts(run)[0].headline == "Only `pinned` was predicted: nothing was compared"
    assert "→" not in shown(run, "txt")
    left = profile(results=(measured("pinned", 0.02), failed("pageable")), recommendation=chosen)
    assert verdicts(left)[0].headline == "Only `pinned` has figures: nothing was compared"
    assert [bar.baseline for bar in bars(profile()).values()] == [False, True]
    assert [(bar.chosen, bar.baseline) for bar in bars(left).values()] == [(False, False)]


def host_only(run: Profile) -> Profile:
    stages = tuple(s for s in vector_add_workload().stages if s.side == "host")
    return run.model_copy(update={"workload": run.workload.model_copy(update={"stages": stages})})


@every("run", [profile(recommendation=recommendation()), cpu_profile()])
def test_without_device_stages_no_strategy_matters(run: Profile) -> None:
    (told,) = verdicts(host_only(run))
    assert told.headline == "No stage of a frame runs on the device, so the memory strategy does not matter"
    assert "device(...)" in told.next_step
    assert "→" not in shown(host_only(run), "txt")
    assert "→" in shown(run, "txt")


def over(*made: Profile | None) -> ProfileSet:
    failing = Point(0, status="failed", reason="E: no", detail=TRACEBACK)
    points = (Point(i, run) if run else replace(failing, value=i) for i, run in enumerate(made, 1))
    return sweep_of(*points)


def test_sweeps_recommend_nothing_that_a_value_does_not() -> None:
    assert "No recommendation: the workload failed" in render(page_of(over(broken(), broken())), "txt")
    assert "on the device to confirm" not in render(page_of(over(broken(), broken())), "txt")
    text = render(page_of(over(host_only(cpu_profile()), host_only(cpu_profile()))), "txt")
    assert "No stage of a frame runs on the device" in text
    alone = profile(results=(measured("pinned", 0.02),), recommendation=recommendation())
    assert "Only `pinned` was run: nothing was compared" in render(page_of(over(alone, alone)), "txt")


def test_a_gain_is_counted_once() -> None:
    gain = Gain(seconds_per_frame=827e-6, bytes=1 << 20, basis="estimated")
    copies = advice(gain=gain, title="Drop the copies")
    once = advice("duplicate-allocation", gain=gain, title="Hold each buffer once")
    other = advice("zero-copy-reread", gain=gain, title="Elsewhere", strategy="managed")
    run = profile(advice=(copies, once, other), recommendation=recommendation())
    found = findings(run)
    assert [f.gain for f in found] == [
        "827 µs less per frame and 1.00 MiB less memory (estimated)",
        "827 µs less per frame and 1.00 MiB less memory (estimated), already counted above",
        "827 µs less per frame and 1.00 MiB less memory (estimated)",
    ]


@every(
    ("text", "limit", "shown"),
    [
        ("One sentence. Another one", 100, "One sentence. Another one"),
        ("One sentence here. Another one", 24, "One sentence here. …"),
        ("It is really over. Not quite", 24, "It is really over. …"),
        ("nothing but words, all short", 20, "nothing but words…"),
        ("endlessendless", 5, "endle…"),
    ],
)
def test_markdown_is_cut_between_words(text: str, limit: int, shown: str) -> None:
    assert escape(text, limit) == shown
    assert prose(text, limit) == shown


def test_markdown_keeps_the_begin_of_a_name_that_is_too_long() -> None:
    assert prose("`advisor profile w.py -q`", 22) == "<code>advisor profile…</code>"
    assert prose("Use no more than `pinned` here", 20) == "Use no more than…"


# What the objective counts, and how often the model was right


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
    assert "a latency includes waiting for the frames before and after" in table.caption
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


# The words of every kind of verdict: the headline, what it rests on, and what to do next


DOUBTS = ("The results of zero-copy could not be compared.",)
SECONDS = {"pageable": 0.040, "pinned": 0.020, "zero-copy": 0.0203}


def made(verdict: Any, strategy: str | None = "pinned", **fields: Any) -> Recommendation:
    return Recommendation(strategy=strategy, verdict=verdict, reason="", **fields)


TIED = made(
    "near",
    "zero-copy",
    bound=0.02,
    speedup=1.97,
    interval=(1.95, 1.99),
    baseline="pageable",
    groups=(("pinned", "zero-copy"), ("pageable",)),
    saved_bytes=192 << 20,
    fastest="pinned",
    excluded={"managed": "needs 1.00 GiB"},
)
VERDICTS: dict[str, Recommendation] = {
    "fastest": recommendation(bound=0.0),
    "near": recommendation("zero-copy", verdict="near", bound=0.014, tied_with=("managed",)),
    "as near as nothing": made("near", bound=0.00001),
    "near and as fast as the baseline": recommendation(
        verdict="near", bound=0.02, speedup=0.99, interval=(0.98, 1.01)
    ),
    "near and a little slower": recommendation(
        verdict="near", bound=0.02, speedup=0.99, interval=(0.98, 0.995)
    ),
    "keep": recommendation("pageable", verdict="keep", bound=0.03, speedup=1.0, interval=(1.0, 1.0)),
    "open": recommendation(verdict="open", bound=0.08),
    "open, with seconds to go": made("open", bound=0.08, seconds_more=40.0),
    "open, the rows tell the gain": recommendation(verdict="open", bound=0.08, speedup=None, interval=None),
    "open, too few": made("open"),
    "untrusted": recommendation(verdict="untrusted", bound=0.0, noise=(1.05, 1.12)),
    "over the budget": made("open", None, excluded={"pinned": "needs 384 MiB"}),
    "nothing left": made("open", None),
    "more memory saves none": made("near", bound=0.02, saved_bytes=-1, fastest="zero-copy"),
    "equal, with less memory": TIED,
    **{
        f"{verdict}, of the least memory": made(verdict, bound=0.02, objective="footprint")
        for verdict in ("fastest", "near", "keep", "open")
    },
    **{
        f"{verdict}, of those that fit": made(verdict, bound=0.02, excluded={"managed": "needs 1.00 GiB"})
        for verdict in ("fastest", "near", "keep", "open")
    },
}


def test_each_kind_has_its_words(accepted: Accepted) -> None:
    """The sentence, what it rests on, the next step; then what the page begins with."""
    text = []
    for name, verdict in VERDICTS.items():
        doubts = DOUBTS if verdict.strategy == "zero-copy" else ()
        told = with_reason(verdict, SECONDS, Preferences(memory_budget_bytes=1 << 29), after=doubts)
        assert told.reason == " ".join(told.steps), name
        shown = verdicts(profile(recommendation=verdict))[0]
        page = ". ".join(filter(None, (shown.headline, shown.remark)))
        text += [f"## {name}", headline(verdict), *told.steps, told.next_step, f"Page: {page}", ""]
    accepted("\n".join(text), "verdicts.txt")
