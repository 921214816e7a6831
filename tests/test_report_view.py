"""The words and figures of the report, before any template."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from builders import (
    advice,
    altered,
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
from rendering import Accepted, bars, blocks, shown
from test_report import TRACEBACK, broken, late

from advisor.model.measured import by_class
from advisor.profiles.conclusions import Gain, Objective, Preferences, Recommendation
from advisor.profiles.schema import Profile
from advisor.profiles.sweeps import Point, ProfileSet
from advisor.report import answering, words
from advisor.report.answer import MOST, Answer, Answers, Part, parts_of
from advisor.report.blocks import Banners, Findings, Table
from advisor.report.markdown import escape, prose
from advisor.report.mixes import buffers
from advisor.report.pages import page_of, render
from advisor.report.recommendations import excerpt, failures, headline, verdicts
from advisor.report.tables import break_even
from advisor.stats import ratio_interval
from advisor.verdicts.reasons import with_reason
from advisor.verdicts.scores import counted


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
    """Beside a baseline of 10 ms a frame and 1 s of set-up."""
    base = measured("pageable", 0.010, spread=0.001, setup_seconds=1.0)
    row = measured("pinned", frame, spread=0.001, setup_seconds=setup)
    assert break_even(row, base, ratio_interval(base.rounds, row.rounds)).value == said


def test_the_bar_of_the_choice_has_the_ratio_of_the_verdict() -> None:
    chosen = recommendation(speedup=1.9, interval=(1.5, 2.5))
    bar = bars(profile(recommendation=chosen))["pinned"]
    assert (bar.chosen, bar.ratio, bar.ratio_between) == (True, "1.90×", "1.50–2.50×")


def test_words_are_cut_with_a_mark() -> None:
    assert words.line("word " * 3_000, 200).endswith("… [14,800 more characters]")
    assert words.name("n" * 100) == "n" * 59 + "…"
    assert words.name(" ") == "(no name)"
    assert words.line("a\x1b[31m\n\tb\u202ec") == "a\N{REPLACEMENT CHARACTER}[31m b\N{REPLACEMENT CHARACTER}c"
    assert words.block("x" * 10 + "\nlast line", 9) == "[11 characters cut] …\nlast line"
    assert words.spans("use `a` or `b") == [("use ", False), ("a", True), (" or `b", False)]


def test_a_buffer_copied_in_some_frames_says_in_how_many() -> None:
    mix = measured("hybrid-1", 0.02, placements={"a": "pinned", "b": "pinned", "c": "zero-copy"})
    run = profile(
        workload=altered(vector_add_workload(), "stages.produce", every=10),
        results=(measured("pageable", 0.04), mix),
        recommendation=recommendation("hybrid-1"),
    )
    (table,) = buffers(run)
    assert [row.cells[3].value for row in table.rows][:2] == ["copied in 1 of 10 frames"] * 2


@every(("more", "drawn"), [(1.005, ["pinned", "pageable"]), (1.05, ["pinned", "registered", "pageable"])])
def test_near_strategies_of_the_same_memory_share_a_bar(more: float, drawn: list[str]) -> None:
    """In doubt, where none is marked, the fastest is the one that a short form shows."""
    memory = predicted("pinned", 0.02).physical_bytes
    alike = predicted("registered", 0.0201, physical_bytes=int(memory * more))
    rows = (predicted("pageable", 0.04), predicted("pinned", 0.02), alike)
    far = predicted("managed", 0.05, over={"pageable": (0.8, 12.5)})
    answer = first_answer(cpu_profile(predictions=(prediction(results=(*rows, far)),)))
    assert [bar.name for bar in answer.bars] == [*drawn, "managed"]
    assert answer.bars[-1].ratio_between == "0.0800–1.25×", "the range of a prediction, however wide"
    doubtful = replace(answer, bars=tuple(replace(bar, chosen=False) for bar in answer.bars))
    assert [bar.name for bar in doubtful.leading(1)] == ["pinned"]


# Where the time of a frame goes


def first_answer(run: Profile) -> Answer:
    return blocks(page_of(run), Answers)[0].items[0]


def test_parts_of_a_measured_frame_and_the_rest() -> None:
    stages = {"produce": 0.004, "add": 0.002, "consume": 0.003}
    row = measured("pinned", 0.020, stage_seconds=stages, transfer_seconds=0.006, synchronize_seconds=0.001)
    parts = parts_of(profile(results=(row,)))["pinned"]
    assert [(part.key, part.value, part.category) for part in parts] == [
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


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=40))
def test_many_parts_are_joined_and_none_is_lost(amounts: list[float]) -> None:
    terms = {f"host:part {i}": amount for i, amount in enumerate(amounts)}
    made = prediction(results=(predicted("pinned", sum(amounts), terms=terms),))
    (parts,) = parts_of(made).values()
    assert len(parts) <= MOST
    assert sum(part.amount for part in parts) == pytest.approx(sum(amounts))
    assert all(isinstance(part, Part) and part.amount > 0 for part in parts)


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


def host_only(run: Profile) -> Profile:
    stages = tuple(s for s in vector_add_workload().stages if s.side == "host")
    return altered(run, "workload", stages=stages)


@every("kind", ["sweep", "workloads", "devices"])
def test_pages_of_several_are_predicted_only_where_something_was(kind: Any) -> None:
    bare = cpu_profile(predictions=(), advice=())
    for run, basis in ((profile(), "measured"), (cpu_profile(), "predicted"), (bare, "nothing")):
        page = page_of(ProfileSet("w", ("n",), [Point(n, run) for n in (1, 2)], kind=kind))
        assert page.basis == basis


@every(
    ("text", "limit", "shown"),
    [
        ("One sentence. Another one", 100, "One sentence. Another one"),
        ("One sentence here. Another one", 24, "One sentence here. …"),
        ("It is really over. Not quite", 24, "It is really over. …"),
        ("nothing but words, all short", 20, "nothing but words…"),
        ("endlessendless", 5, "endle…"),
        ("`advisor profile w.py -q`", 22, "<code>advisor profile…</code>"),
        ("Use no more than `pinned` here", 20, "Use no more than…"),
    ],
)
def test_markdown_is_cut_between_words(text: str, limit: int, shown: str) -> None:
    assert "`" in text or escape(text, limit) == shown
    assert prose(text, limit) == shown


# What the objective counts, and how often the model was right


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
    only = render(page_of(unadvised(predictions=run.predictions)), form)
    assert "add on Jetson TX2" in re.sub(r"<[^>]*>", "", only.split("</head>")[-1])


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
        name: {**row, "right_share": right if name == memory_class else row["right_share"]}
        for name, row in by_class().items()
    }
    monkeypatch.setattr(answering, "by_class", lambda: known)
    run = cpu_profile(predictions=(altered(prediction("GH200"), "device", memory_class=memory_class),))
    page = " ".join(render(page_of(run), "details").split())
    assert f"model was {told} of {memory_class} memory" in page
    row = known.get(memory_class)  # type: ignore[call-overload]
    if row is None:
        assert "nothing published to check memory class discrete-hmm" in page
    else:
        assert ("a rule of three lines: " in page) == (row["choices"] >= 5)
        assert f"of {row['figures']} figures in range" in page


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
    "open, another looks faster": recommendation(verdict="open", bound=0.08, fastest="zero-copy"),
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


NOT_TRACED = prediction(results=(skipped("pinned", "nothing was traced"),), recommendation=None)
NO_FIGURES = prediction(results=(skipped("managed", "no figures"),), recommendation=None)
KEPT = recommendation("pageable", verdict="keep")
AB = (prediction("a"), prediction("b", recommendation=KEPT))
SAVED = Gain(seconds_per_frame=827e-6, bytes=1 << 20, basis="estimated")
unadvised = partial(cpu_profile, advice=())
brief = partial(advice, detail="Because.", snippet="x = 1", evidence=())
ALONE = recommendation(speedup=None, interval=None, baseline=None)


def left_open(more: float | None) -> Profile:
    chosen = recommendation(verdict="open", bound=0.08, seconds_more=more)
    run = profile(recommendation=chosen, command="advisor profile w.py --max-seconds 5 -q")
    return altered(run, "method", max_seconds=60.0)


def predicting(**fields: Any) -> Profile:
    """One device, predicted by that recommendation."""
    return unadvised(predictions=(prediction(recommendation=recommendation(**fields)),))


def dying(how: str) -> Profile:
    return unadvised(results=(failed("pageable", f"the process {how}"),), predictions=(NOT_TRACED,))


SITUATIONS: dict[str, Profile] = {
    "open, for four times the time": left_open(None),
    "open, for 40 s": left_open(40.0),
    "a bet": predicting(strategy="zero-copy", verdict="open", interval=(0.6, 3.1), tied_with=("pinned",)),
    "a bet on the baseline": predicting(
        strategy="pageable", verdict="open", speedup=1.0, interval=(1.0, 1.0)
    ),
    "the baseline is kept": predicting(
        strategy="pageable", verdict="keep", bound=0.05, speedup=1.0, interval=(1.0, 1.0)
    ),
    "three devices": cpu_profile(),
    "one failure": profile(results=(skipped(), failed(reason="killed by signal 9"))),
    "two failures": profile(results=(failed(), failed("pinned", "no memory"), skipped())),
    "declined": unadvised(predictions=(NO_FIGURES,)),
    "killed, not predicted": dying("was killed by SIGKILL"),
    "ended, not predicted": dying("exited with code 0 without a result"),
    "not traced": unadvised(predictions=(NOT_TRACED,)),
    "one was run": profile(results=(measured("pinned", 0.02),), recommendation=ALONE),
    "one is left": profile(results=(measured("pinned", 0.02), failed("pageable")), recommendation=ALONE),
    "one was predicted": unadvised(
        predictions=(prediction(results=(predicted("pinned", 0.02),), recommendation=ALONE),)
    ),
    "one was timed here, no device is given": unadvised(
        results=(measured("pageable", 0.06),), predictions=()
    ),
    "measured, no device stage": host_only(profile(recommendation=recommendation())),
    "predicted, no device stage": host_only(unadvised()),
    "a failure, and the other is predicted": unadvised(
        results=(measured("pageable", 0.06), late("zero-copy"))
    ),
    "all failed, and are predicted": broken(),
    "two failed alike": profile(results=tuple(failed(n, f"{n} of 10 elements differ") for n in "12")),
    "two failed": profile(results=(failed("a", "1 of 10 elements differs"), failed("b", "killed"))),
    "kept": profile(recommendation=KEPT, advice=(advice(),)),
    "kept, as near": profile(recommendation=recommendation("pageable", verdict="near"), advice=(advice(),)),
    "kept on one of two": profile(
        predictions=AB, advice=(brief(device="b"), brief("pin-per-frame", device="b", strategy=None), brief())
    ),
    "kept on the one that is advised": profile(predictions=AB, advice=(brief(device="b"),)),
    "advice that devices share": profile(
        advice=(
            brief(device="a", detail="first"),
            brief(device="b", detail="second", gain=None),
            brief(device="c", snippet="y = 1"),
        )
    ),
    "the recommended one's advice comes first": profile(
        recommendation=recommendation(),
        advice=(
            brief("c-rule", outcome="pass"),
            brief("b-rule", strategy="managed"),
            brief("a-rule", snippet="a = 1"),
        ),
    ),
    "a gain is counted once": profile(
        recommendation=recommendation(),
        advice=(
            brief(gain=SAVED),
            brief("duplicate-allocation", gain=SAVED),
            brief("zero-copy-reread", gain=SAVED, strategy="managed"),
        ),
    ),
}


def conclusions(run: Profile) -> Iterator[str]:
    """Banners and failures, each device's verdict with its chart and code, and what the rules conclude."""
    page = page_of(run)
    yield from (f"{each.label}: {text}" for each in blocks(page, Banners) for text in each.texts)
    yield from (f"{each.headline} Next: {each.next_step}" for each in failures(run))
    for verdict, answer in zip(verdicts(run), blocks(page, Answers)[0].items, strict=True):
        yield f"{verdict.basis}, {verdict.tone}: {verdict.device}"
        yield from filter(None, (verdict.headline, verdict.remark, verdict.reason, verdict.next_step))
        code = f"code for {answer.change.strategy}" if answer.change else answer.unchanged or "no code"
        yield f"{words.count(len(answer.bars), 'bar')}, {answer.chosen or 'none'} marked; {code}"
    for one in (one for each in blocks(page, Findings, "advice") for one in each.items):
        yield f"- {one.outcome} of {one.rule} on {one.where}: {one.detail} [{one.gain}]"
        yield from one.snippet.splitlines()


def test_each_situation_has_its_words(accepted: Accepted) -> None:
    text = ("\n".join([f"## {name}", *conclusions(run), ""]) for name, run in SITUATIONS.items())
    accepted("\n".join(text), "situations.txt")


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
