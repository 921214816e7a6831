"""What nsys saw, beside what the rules say: never in place of it, and never of another device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import builders
import pytest
from every import every
from test_nsys_exports import managed, pinned

from advisor.nsys.exports import read
from advisor.profiles.conclusions import Advice
from advisor.profiles.reading import load
from advisor.profiles.schema import Profile
from advisor.profiles.traces import Activity, Copies, NsysTrace, StrategyTrace
from advisor.rules.advise import advise, with_trace
from advisor.rules.registry import by_id

H200 = Path(__file__).parent / "data" / "h200-traced.json"
"""vector_add, n = 2**22, on an H200 with `--trace nsys`; some strategies, without their own timelines."""


def traced(tmp_path: Path, **names: str) -> NsysTrace:
    """Of the exports that tests build, each under another strategy's name."""
    makers = {"pinned": pinned, "managed": managed}
    found: list[StrategyTrace] = []
    tmp_path.mkdir(exist_ok=True)
    for name, maker in names.items():
        (one,) = read(makers[maker](tmp_path / f"{name}.sqlite")).strategies
        found.append(one.model_copy(update={"strategy": name}))
    return NsysTrace(tool="nsys 2023.4.4", strategies=tuple(found))


def profile(trace: NsysTrace) -> Profile:
    return builders.profile(trace=trace)


def advice(rule: str, **fields: Any) -> Advice:
    given = {"device": builders.profile().device.name, "outcome": "advice", "title": "t", "detail": "d"}
    return Advice(rule=rule, **{**given, **fields})


def figures(trace: NsysTrace, rule: str, **fields: Any) -> dict[str, float]:
    (one,) = with_trace(profile(trace), [advice(rule, **fields)])
    return {evidence.label: evidence.value for evidence in one.evidence}


@pytest.mark.parametrize("rule", ["page-fault-migration", "ping-pong-migration"])
def test_migrations_and_faults(tmp_path: Path, rule: str) -> None:
    assert figures(traced(tmp_path, managed="managed"), rule) == {
        "managed: migrated to the GPU, recorded by nsys, per frame": 65536 + 4096,
        "managed: migrated to the host, recorded by nsys, per frame": 131072,
        "managed: page faults by the CPU, recorded by nsys, per frame": 2,
        "managed: page faults by the GPU, recorded by nsys, per frame": 16,
    }


@pytest.mark.parametrize(
    ("rule", "strategy"), [("pageable-transfer", "pageable"), ("staged-transfer", "staged")]
)
def test_the_kind_of_memory_that_the_driver_saw(tmp_path: Path, rule: str, strategy: str) -> None:
    label = f"{strategy}: copied host-to-device from pinned memory, recorded by nsys, per frame"
    assert figures(traced(tmp_path, **{strategy: "pinned"}), rule) == {label: 300}


def test_the_idle_gpu(tmp_path: Path) -> None:
    both = traced(tmp_path / "both", pageable="managed", pinned="pinned")
    assert figures(both, "serial-copies") == {
        "pinned: GPU idle, recorded by nsys, per frame": pytest.approx(0.006),
        "pinned: that frame, slowed by tracing": 0.01,
    }
    baseline = figures(traced(tmp_path / "one", pageable="pinned"), "serial-copies")
    assert baseline["pageable: GPU idle, recorded by nsys, per frame"] == pytest.approx(0.006)


@pytest.mark.parametrize(
    "fields",
    [
        {"device": "Another GPU"},
        {"outcome": "not-applicable"},
        {"outcome": "error"},
        {"rule": "zero-copy-reread"},
    ],
)
def test_advice_on_something_else_stays_as_it_is(tmp_path: Path, fields: dict[str, str]) -> None:
    given = advice(fields.pop("rule", "page-fault-migration"), **fields)
    assert with_trace(profile(traced(tmp_path, managed="managed")), [given]) == (given,)


def test_advising_brings_it_in(tmp_path: Path) -> None:
    rows = (builders.measured("pageable", 0.01), builders.measured("pinned", 0.005))
    made = advise(builders.profile(results=rows, trace=traced(tmp_path, pageable="pinned")))
    (one,) = (a for a in made.advice if a.rule == "pageable-transfer")
    assert any("recorded by nsys" in evidence.label for evidence in one.evidence)


# A cause that the driver did not see


def seeing(strategy: str, **activity: Any) -> NsysTrace:
    one = StrategyTrace(strategy=strategy, frames=2, frame_seconds=0.01, activity=Activity(**activity))
    return NsysTrace(tool="nsys 2023.4.4", strategies=(one,))


def copies(source: str, target: str = "device", kind: str = "host-to-device") -> Copies:
    return Copies(kind=kind, source=source, destination=target, count=2, bytes=600, seconds=0.001)


PINNED = copies("pinned")
FROM_ORDINARY, INTO_ORDINARY = copies("pageable"), copies("device", "pageable", "device-to-host")


@every(
    ("rule", "strategy", "activity"),
    [
        ("page-fault-migration", "managed", {"migrations": ()}),
        ("pageable-transfer", "pageable", {"copies": (PINNED,)}),
        ("staged-transfer", "staged", {"copies": (FROM_ORDINARY,)}),
    ],
)
def test_a_cause_that_was_not_seen_is_in_doubt(rule: str, strategy: str, activity: dict[str, Any]) -> None:
    watched = profile(seeing(strategy, **activity))
    (one,) = with_trace(watched, [advice(rule, certainty="measured")])
    assert one.certainty == "likely"
    rule_of = by_id(rule)
    assert rule_of.traced.unseen in one.detail
    (predicted,) = with_trace(watched, [advice(rule, certainty="predicted")])
    assert predicted.certainty == "predicted"
    (passed,) = with_trace(watched, [advice(rule, outcome="pass")])
    assert (passed.detail, passed.certainty) == ("d", None)


@every(
    ("rule", "strategy", "activity"),
    [
        ("page-fault-migration", "managed", {}),
        ("pageable-transfer", "pageable", {}),
        ("pageable-transfer", "pageable", {"copies": (PINNED, FROM_ORDINARY)}),
        ("pageable-transfer", "pageable", {"copies": (PINNED, INTO_ORDINARY)}),
        ("staged-transfer", "staged", {"copies": (PINNED, INTO_ORDINARY)}),
    ],
)
def test_a_cause_that_was_seen_or_not_watched_stands(
    rule: str, strategy: str, activity: dict[str, Any]
) -> None:
    (one,) = with_trace(profile(seeing(strategy, **activity)), [advice(rule, certainty="measured")])
    assert (one.detail, one.certainty) == ("d", "measured")


# On an H200

MIB = 1 << 20


@pytest.fixture(scope="module")
def advised() -> dict[str, Advice]:
    made = advise(load(H200))
    return {one.rule: one for one in made.advice if one.device == made.device.name}


def seen_there(one: Advice) -> dict[str, float]:
    end = ", recorded by nsys, per frame"
    return {e.label.removesuffix(end): e.value for e in one.evidence if e.label.endswith(end)}


@pytest.mark.parametrize(
    ("rule", "outcome", "expected"),
    [
        (
            "pageable-transfer",
            "advice",
            {
                "pageable: copied host-to-device from pageable memory": 32 * MIB,
                "pageable: copied device-to-host into pageable memory": 16 * MIB,
            },
        ),
        (
            "staged-transfer",
            "advice",
            {
                "staged: copied host-to-device from pinned memory": 32 * MIB,
                "staged: copied device-to-host into pageable memory": 16 * MIB,
            },
        ),
        (
            "page-fault-migration",
            "advice",
            {
                "managed: migrated to the GPU": 48 * MIB,
                "managed: migrated to the host": 48 * MIB,
                "managed: page faults by the CPU": 144,
                "managed: page faults by the GPU": 229.6,
            },
        ),
        (
            "ping-pong-migration",
            "pass",
            {
                "managed: migrated to the GPU": 48 * MIB,
                "managed: migrated to the host": 48 * MIB,
                "managed: page faults by the CPU": 144,
                "managed: page faults by the GPU": 229.6,
            },
        ),
        ("serial-copies", "pass", {"pinned: GPU idle": pytest.approx(2.797e-3, rel=1e-3)}),
    ],
)
def test_the_drivers_evidence_of_an_h200(
    advised: dict[str, Advice], rule: str, outcome: str, expected: dict[str, float]
) -> None:
    one = advised[rule]
    assert (one.outcome, seen_there(one)) == (outcome, expected)
    inferred = rule == "page-fault-migration"
    sure = "likely" if inferred else "measured"
    assert one.certainty == (sure if outcome == "advice" else None)
