"""The page of a script: the ceiling first, lines whose figures add up, measured and predicted kept apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from builders import altered, profile
from every import every
from rendering import blocks as blocks_of
from rendering import markup, shown
from script_runs import FRAMES, UPLOAD, download, lock, place, played, repeats, script_run, upload

from advisor.devices.catalogue import load
from advisor.profiles.crossings import PROCESSES, CopyCost, ScriptRun
from advisor.profiles.schema import Profile
from advisor.profiles.trials import Patch, Trial, Trials
from advisor.report import blocks
from advisor.report.pages import page_of
from advisor.rules import advise
from advisor.verdicts.ceilings import ceilings, elsewhere, scopes

CARD = load("rtx-2060")


def of(run: ScriptRun, *targets: str) -> Profile:
    script = profile(results=()).model_copy(update={"script": run})
    return advise.conclude(script, [load(name) for name in targets])


def tried(run: ScriptRun, **fields: Any) -> Profile:
    trials = Trials(frame_seconds=0.004, loop=0, seconds=9.0, **fields)
    return of(run).model_copy(update={"trials": trials})


def patch(low: float = 1.1, high: float = 1.3, **fields: Any) -> Patch:
    return Patch(text="--- a/s.py\n+++ b/s.py\n", lines=2, speedup=1.2, interval=(low, high), **fields)


FASTER = Trial(
    name="lock-11",
    kind="lock",
    title="page-lock gray",
    outcome="faster",
    promised_seconds=8e-4,
    frame_seconds=0.0035,
    speedup=1.16,
    interval=(1.08, 1.25),
)
REFUSED = Trial(
    name="reuse-14", kind="reuse", title="reuse out", outcome="refused", reason="the script keeps them"
)
UNPROVED = Trial(name="lock-11", kind="lock", title="page-lock gray", outcome="open", reason="faster, but")
UNDECIDED = Trial(name="lock-12", kind="lock", title="page-lock rgb", outcome="open")
UNLIKE = "two unchanged runs differ in what line 14 downloads"
COST = CopyCost(frames=96, seconds=0.8e-3, interval_seconds=(0.7e-3, 0.9e-3))
LITTLE = script_run(upload(host_seconds=FRAMES * 1e-6, stream_seconds=None))
NOTHING = script_run().model_copy(update={"crossings": (), "unseen": ()})
ELSEWHERE = {"unseen": (f"{PROCESSES} a process that the script starts",)}
SHORT = altered(script_run(), "loops.*", untimed_seconds=0.5e-3)
SCRIPTS: dict[str, Callable[[], Profile]] = {
    "scripts/failed": lambda: of(altered(SHORT, "", exit_code=1, error="ValueError: no frame")),
    "scripts/measured-cost": lambda: of(altered(script_run(), "loops.*", copy_cost=COST)),
    "scripts/nothing-crosses": lambda: of(NOTHING),
    "scripts/nothing-seen": lambda: of(NOTHING.model_copy(update=ELSEWHERE)),
    "scripts/little": lambda: of(LITTLE),
    "scripts/little-seen": lambda: of(LITTLE.model_copy(update=ELSEWHERE)),
    "scripts/predicted": lambda: of(played(), "rtx-2060", "orin-nano"),
    "scripts/no-predicted-time": lambda: of(played(lock(place=place(UPLOAD))), "rtx-2060", "orin-nano"),
    "scripts/tried": lambda: tried(
        script_run(), trials=(FASTER, REFUSED), compared=("1 printed line",), patch=patch(equal=True)
    ),
    "scripts/patch-in-the-noise": lambda: tried(
        script_run(), trials=(FASTER, REFUSED), patch=patch(0.95, 1.5, equal=True)
    ),
    "scripts/unproved": lambda: tried(script_run(), trials=(UNPROVED, UNDECIDED), patch=patch(reason=UNLIKE)),
}

ENDED = "Interrupted while changes were tried."
IN_PATCH = FASTER.model_copy(update={"place": place(UPLOAD), "rule": "pageable-transfer", "in_patch": True})
OTHER_RULE = IN_PATCH.model_copy(update={"rule": "pin-per-frame"})
STILL_OPEN = IN_PATCH.model_copy(update={"outcome": "open"})
NOT_WRITTEN = Patch(text="", lines=0, left_out=("upload x once (the loop does nothing else)",))
TABS = Patch(text="--- a/s.py\n+++ b/s.py\n+\ty = 1\n", lines=1, equal=True, speedup=1.2, interval=(1, 2))


@every(
    ("fields", "text", "times"),
    [
        ({"trials": (FASTER,), "patch": NOT_WRITTEN}, "the loop does nothing else", 1),
        ({"trials": (FASTER,), "reason": ENDED}, ENDED, 1),
        ({"trials": (FASTER,), "reason": ENDED}, "has no patch: its text was not yet run and timed", 1),
        ({"trials": (UNDECIDED,), "reason": ENDED}, "Nothing was proved by then", 1),
        ({"trials": (IN_PATCH,), "patch": patch(equal=True)}, "Line 10: code", 0),
        ({"trials": (IN_PATCH,), "patch": patch()}, "Line 10: code", 1),
        ({"trials": (IN_PATCH,), "patch": TABS}, "+\ty = 1", 1),
        ({"trials": (IN_PATCH,), "patch": NOT_WRITTEN}, "(tried: 1.16× (1.08× to 1.25×) as fast", 1),
        ({"trials": (OTHER_RULE, STILL_OPEN), "patch": NOT_WRITTEN}, "(tried:", 0),
    ],
)
def test_what_became_of_trials_is_said_once(fields: dict[str, Any], text: str, times: int) -> None:
    """A patch keeps the tabs of its file, which it does not apply without."""
    result = tried(script_run(), **fields)
    noted = result.model_copy(update={"notes": (ENDED,)}) if text == ENDED else result
    assert shown(noted, "md").count(text) == times


def test_the_ceiling_of_copies_and_calls() -> None:
    run = script_run()
    (ceiling,), (scope,) = ceilings(run), scopes(run)
    assert ceiling.copy_seconds == pytest.approx(0.59e-3)
    assert ceiling.wait_seconds == pytest.approx(0.02e-3)
    kernels, other = elsewhere(scope, ceiling)
    assert kernels == pytest.approx(1.88e-3)
    assert ceiling.seconds + kernels + other == pytest.approx(6.1e-3)
    spans = {"host_seconds": FRAMES * 3e-4, "stream_seconds": FRAMES * 4e-4}
    for copy, seconds in (
        (upload(asynchronous=True, **spans), 4e-4),
        (upload(library="torch", non_blocking=True, **spans), 4e-4),
        (upload(library="torch", **spans), 3e-4),  # its call waits for all of it
        (download(asynchronous=False, **spans), 3e-4),
    ):
        assert ceilings(script_run(copy))[0].seconds == pytest.approx(seconds)
    locking = ceilings(script_run(lock()))[0].copy_seconds
    locked = ceilings(altered(script_run(upload(), lock()), "loops.*", copy_cost=COST))[0].copy_seconds
    assert locked == pytest.approx(0.8e-3 + locking)
    assert locking > 0
    less = COST.model_copy(update={"seconds": 0.3e-3, "interval_seconds": (0.2e-3, 0.4e-3)})
    (ceiling,) = ceilings(altered(script_run(), "loops.*", copy_cost=less))
    assert ceiling.copy_seconds == pytest.approx(0.59e-3), "frames without copies tell less than the calls"
    assert ceiling.interval_seconds == pytest.approx((0.22e-3, 0.61e-3))
    wide = COST.model_copy(update={"interval_seconds": (0.7e-3, 7e-3)})
    (ceiling,) = ceilings(altered(script_run(), "loops.*", copy_cost=wide))
    assert ceiling.interval_seconds == pytest.approx((0.72e-3, 6.1e-3)), "at most the whole frame"
    (ceiling,) = ceilings(altered(SHORT, "loops.*", copy_cost=wide))
    assert (ceiling.seconds, ceiling.interval_seconds) == (pytest.approx(0.5e-3), (0.5e-3, 0.5e-3))
    longer = upload(stream_seconds=FRAMES * 1.0)
    assert ceilings(script_run(longer))[0].share == pytest.approx(1.0)


def test_predicted_figures_never_stand_as_measured() -> None:
    run = of(played(), "rtx-2060")
    page = page_of(run)
    assert page.basis == "predicted"
    assert {v.basis for each in blocks_of(page, blocks.Verdicts) for v in each.items} == {"predicted"}
    tables = [table for table in blocks_of(page, blocks.Table) if table.kind == "lines"]
    assert all(table.predicted for table in tables)
    assert [c.head for c in tables[0].columns if c.basis == "predicted"] == [CARD.name]
    assert "time" not in [c.head for c in tables[0].columns]
    nowhere = blocks_of(page_of(of(played(upload(), upload(loop=None)))), blocks.Table, "lines")
    heads = [[column.head for column in table.columns] for table in nowhere]
    assert heads == [["per frame", "from"], ["in all", "from"]], "nothing was timed or predicted"
    page = page_of(of(script_run(), "orin-nano"))
    tables = [table for table in blocks_of(page, blocks.Table, "predicted") if table.kind == "lines"]
    assert [table.predicted for table in tables] == [True]
    assert not any(table.predicted for table in blocks_of(page, blocks.Table, "lines"))


def test_hostile_text_of_a_script_stays_text() -> None:
    hostile = place(UPLOAD).model_copy(update={"text": "d = asarray('<script>`|\x1b[31m')"})
    run = of(script_run(upload(place=hostile, repeats=repeats(same=19))))
    for form in ("html", "md", "details"):
        text = shown(run, form)
        assert "\x1b" not in text
        assert "asarray('<script>" not in (markup(text) if form == "html" else "")
    assert "- code" not in shown(run, "md")
