"""The words of every kind of verdict: the headline, what it rests on, and what to do next."""

from __future__ import annotations

from typing import Any

from builders import profile, recommendation
from rendering import Accepted

from advisor.profiles.conclusions import Preferences, Recommendation
from advisor.report.recommendations import headline, verdicts
from advisor.verdicts.reasons import with_reason

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
