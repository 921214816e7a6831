"""The pages of a comparison: what they look like, that they stay small and that no text comes alive."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from builders import (
    advice,
    cpu_profile,
    failed,
    footprint,
    measured,
    predicted,
    prediction,
    profile,
    recommendation,
    skipped,
    vector_add_workload,
)
from test_comparing import LATER, later
from test_report_escaping import everywhere

from advisor.profiles.schema import Profile
from advisor.report.comparison_page import comparison_page
from advisor.report.pages import render
from advisor.verdicts.comparing.comparisons import Comparison, compare
from advisor.verdicts.comparing.gates import Ruling, judge, parse_gates

FILES = ("base.json", "head.json")
GATES = ("slower=5%", "footprint=+10%", "recommendation-changes")
Compared = tuple[Comparison, tuple[Ruling, ...]]


def gated(base: Profile, head: Profile, gates: Sequence[str] = GATES) -> Compared:
    found = compare(base, head, anyway=True)
    return found, judge(found, parse_gates(gates))


def gpu() -> Compared:
    """Each verdict once, a strategy lost, one new, advice new and gone, the code and a package changed."""
    names = ("pageable", "pinned", "zero-copy", "managed", "registered")
    before = tuple(measured(name, 0.040, spread=0) for name in names)
    now = (
        measured("pageable", 0.040, spread=0),
        measured("pinned", 0.050, spread=0, footprint=footprint(pinned=384 << 20)),
        measured("zero-copy", 0.030, spread=0),
        measured("managed", 0.041, frame_seconds=(0.02, 0.041, 0.08) * 3, frames_per_round=(3, 3, 3)),
        failed("registered", "ended with a bus error"),
        measured("staged", 0.035, spread=0),
    )
    base, changed = profile().environment, vector_add_workload().model_copy(update={"sha256": "1" * 64})
    newer = base.model_copy(update={"packages": {"numpy": "2.1"}})
    return gated(
        profile(
            results=(*before, skipped("staged", "CuPy is too old")),
            recommendation=recommendation("pinned"),
            advice=(advice("pageable-transfer"),),
        ),
        later(
            results=now,
            recommendation=recommendation("zero-copy"),
            workload=changed,
            environment=newer,
            advice=(advice("zero-copy-reread", title="Copy once"),),
            notes=("Sampling was short.",),
        ),
    )


def cpu() -> Compared:
    def of(pinned: float) -> Profile:
        rows = predicted("pageable", 0.040), predicted("pinned", pinned, spread=0.1)
        named = ("NVIDIA Jetson Orin Nano 8GB", "NVIDIA H200")
        each = (prediction(name, results=(*rows, skipped("managed", "no figure"))) for name in named)
        return cpu_profile(predictions=tuple(each))

    return gated(of(0.020), of(0.035).model_copy(update={"created": LATER}), ("slower=5%",))


PAIRS: dict[str, Callable[[], Compared]] = {"compare-gpu": gpu, "compare-cpu": cpu}
FORMS = ("html", "md", "txt")


def shown(
    form: str, found: Comparison, rulings: Sequence[Ruling] = (), files: tuple[str, str] = ("", "")
) -> str:
    return render(comparison_page(found, rulings, files), form)


def hostile(text: str) -> Compared:
    """The text in both profiles, and different around it, so that every part of the page is there."""
    base, head = everywhere(text), everywhere(text)
    head = head.model_copy(
        update={
            "created": text,
            "results": (*head.results[:2], failed("x", text), measured("new", 1.0)),
            "advice": (advice(text + "2", text, title=text, detail=text),),
        }
    )
    base = base.model_copy(update={"results": (*base.results[:2], measured("x", 1.0))})
    return gated(base, head)


def test_two_devices_are_both_named() -> None:
    other = profile().device.model_copy(update={"name": "Other"})
    found = compare(profile(), later(device=other))
    assert comparison_page(found).where == "on Other (BASE: Test discrete)"
    for form in FORMS:
        assert "Other (BASE: Test discrete)" in shown(form, found, (), FILES)


def test_gates_that_say_the_same_stand_together() -> None:
    rulings = gated(profile(), later(), ("footprint=+10%", "footprint=+20%"))
    assert "Gates footprint=+10% and footprint=+20%: passed" in shown("txt", *rulings)
    assert "- Gates <code>footprint=+10%</code>, <code>footprint=+20%</code> passed" in shown("md", *rulings)
