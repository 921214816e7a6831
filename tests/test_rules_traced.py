"""What nsys saw, beside what the rules say: never in place of it, and never of another device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from builders import profile
from every import every
from judging import told
from rendering import Accepted
from test_nsys_exports import managed, pinned

from advisor.nsys.exports import read
from advisor.profiles.conclusions import Advice
from advisor.profiles.reading import load
from advisor.profiles.schema import Profile
from advisor.profiles.traces import Activity, Copies, NsysTrace, StrategyTrace
from advisor.rules.advise import advise
from advisor.rules.registry import by_id

H200 = Path(__file__).parent / "data" / "h200-traced.json"
"""vector_add, n = 2**22, on an H200 with `--trace nsys`; some strategies, without their own timelines."""


def with_trace(profile: Profile, advice: Sequence[Advice]) -> tuple[Advice, ...]:
    parts = [by_id(each.rule).traced for each in advice]
    return tuple(part.beside(one, profile) if part else one for one, part in zip(advice, parts, strict=True))


def traced(folder: Path, **exports: str) -> NsysTrace:
    """Of the exports that tests build, each under another strategy's name."""
    makers = {"pinned": pinned, "managed": managed}
    seen: list[StrategyTrace] = []
    for name, maker in exports.items():
        (one,) = read(makers[maker](folder / f"{len([*folder.iterdir()])}.sqlite")).strategies
        seen.append(one.model_copy(update={"strategy": name}))
    return NsysTrace(tool="nsys 2023.4.4", strategies=tuple(seen))


def advice(rule: str, **fields: Any) -> Advice:
    given = {"device": profile().device.name, "outcome": "advice", "title": "t", "detail": "d"}
    return Advice(rule=rule, **{**given, **fields})


def test_what_the_driver_saw_is_evidence(tmp_path: Path, accepted: Accepted) -> None:
    """Of exports that tests build, and of an H200."""
    of_pages, of_copies = traced(tmp_path, managed="managed"), {"pageable": "managed", "pinned": "pinned"}
    cases = [
        ("page-fault-migration", of_pages),
        ("ping-pong-migration", of_pages),
        ("pageable-transfer", traced(tmp_path, pageable="pinned")),
        ("staged-transfer", traced(tmp_path, staged="pinned")),
        ("serial-copies", traced(tmp_path, **of_copies)),
        ("serial-copies", traced(tmp_path, pageable="pinned")),
    ]
    built = [with_trace(profile(trace=trace), [advice(rule)])[0] for rule, trace in cases]
    there = [one for one in advise(load(H200)).advice if any("nsys" in e.label for e in one.evidence)]
    text = ["\n".join([one.rule, *told(one), ""]) for one in (*built, *there)]
    accepted("\n".join(text), "traced-advice.txt")


@every(
    "fields",
    [
        {"device": "Another GPU"},
        {"outcome": "not-applicable"},
        {"outcome": "error"},
        {"rule": "zero-copy-reread"},
    ],
)
def test_advice_on_something_else_stays_as_it_is(tmp_path: Path, fields: dict[str, str]) -> None:
    given = advice(**{"rule": "page-fault-migration", **fields})
    assert with_trace(profile(trace=traced(tmp_path, managed="managed")), [given]) == (given,)


# A cause that the driver did not see


def copies(source: str, target: str = "device", kind: str = "host-to-device") -> Copies:
    return Copies(kind=kind, source=source, destination=target, count=2, bytes=600, seconds=0.001)


PINNED = copies("pinned")
FROM_ORDINARY, INTO_ORDINARY = copies("pageable"), copies("device", "pageable", "device-to-host")


@every(
    ("rule", "strategy", "activity", "certainty"),
    [
        ("page-fault-migration", "managed", {"migrations": ()}, "likely"),
        ("pageable-transfer", "pageable", {"copies": (PINNED,)}, "likely"),
        ("staged-transfer", "staged", {"copies": (FROM_ORDINARY,)}, "likely"),
        ("page-fault-migration", "managed", {}, "measured"),
        ("pageable-transfer", "pageable", {}, "measured"),
        ("pageable-transfer", "pageable", {"copies": (PINNED, FROM_ORDINARY)}, "measured"),
        ("pageable-transfer", "pageable", {"copies": (PINNED, INTO_ORDINARY)}, "measured"),
        ("staged-transfer", "staged", {"copies": (PINNED, INTO_ORDINARY)}, "measured"),
    ],
)
def test_a_cause_that_was_watched_and_not_seen_is_in_doubt(
    rule: str, strategy: str, activity: dict[str, Any], certainty: str
) -> None:
    seen = StrategyTrace(strategy=strategy, frames=2, frame_seconds=0.01, activity=Activity(**activity))
    watched = profile(trace=NsysTrace(tool="nsys 2023.4.4", strategies=(seen,)))
    (one,) = with_trace(watched, [advice(rule, certainty="measured")])
    assert one.certainty == certainty
    assert (by_id(rule).traced.unseen in one.detail) == (certainty == "likely")
    (predicted,) = with_trace(watched, [advice(rule, certainty="predicted")])
    assert predicted.certainty == "predicted"
    (passed,) = with_trace(watched, [advice(rule, outcome="pass")])
    assert (passed.detail, passed.certainty) == ("d", None)
