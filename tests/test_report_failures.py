"""Failures are told before any verdict, in every form, and what is in doubt is no recommendation."""

from __future__ import annotations

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
from rendering import bars, blocks, shown
from test_report import TRACEBACK, broken, late

from advisor.profiles.conclusions import Gain
from advisor.profiles.schema import Profile
from advisor.profiles.sweeps import Point, SweepResults, sweep_results
from advisor.report.advising import findings
from advisor.report.answer import Answers
from advisor.report.blocks import Banners
from advisor.report.markdown import escape, prose
from advisor.report.pages import page_of, render
from advisor.report.recommendations import excerpt, failures, verdicts


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


def over(*made: Profile | None) -> SweepResults:
    points = [
        Point(i, run) if run else Point(i, status="failed", reason="E: no", detail=TRACEBACK)
        for i, run in enumerate(made, 1)
    ]
    return sweep_results("w", "n", points)


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
