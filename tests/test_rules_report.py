"""Estimated gains beside measured ones: in the advice, in reports, and over committed profiles."""

from __future__ import annotations

import pytest
import rules_report
from builders import advice, measured, profile, recommendation, vector_add_trace
from rendering import blocks

from advisor.model.measured import modelled
from advisor.model.predict import with_estimates
from advisor.model.terms import span
from advisor.profiles.conclusions import Advice, Gain
from advisor.profiles.schema import Device, Profile
from advisor.report.blocks import Findings
from advisor.report.pages import page_of
from advisor.rules.advise import advise


def on_an_h200(**fields: object) -> Profile:
    device = Device(name="NVIDIA H200", kind="cuda", memory_class="discrete", attributes={"integrated": 0})
    rows = (measured("pageable", 0.040), measured("pinned", 0.020, transfer_seconds=0.001))
    return profile(**{"device": device, "results": rows, "traffic": vector_add_trace(), **fields})


def advised(run: Profile):
    return next(a for a in advise(run).advice if a.rule == "pageable-transfer")


def test_the_models_estimate_stands_beside_the_measured_gain() -> None:
    told = advised(on_an_h200())
    likely = {name: span(seconds)[1] for name, seconds in modelled(on_an_h200()).items()}
    assert (told.gain.basis, told.gain.over) == ("measured", "pageable")
    assert told.gain.seconds_per_frame == pytest.approx(0.020)
    assert told.gain.estimated_seconds_per_frame == pytest.approx(likely["pageable"] - likely["pinned"])
    assert told.gain.estimated_seconds_per_frame != pytest.approx(0.020), "it is blind to what was measured"
    unknown = on_an_h200(device=Device(name="From the future", kind="cuda", memory_class="discrete"))
    assert advised(unknown).gain.estimated_seconds_per_frame is None
    assert advised(on_an_h200(traffic=None)).gain.estimated_seconds_per_frame is None
    assert with_estimates(unknown, ()) == ()


def test_the_page_is_made_from_the_committed_profiles() -> None:
    text = rules_report.DOCUMENT.read_text(encoding="utf-8")
    assert rules_report.between_marks(rules_report.tables(), text) == text, "make rules-report"


def test_the_change_from_the_baseline_stands_before_larger_gains_over_what_nobody_uses() -> None:
    def told(rule: str, strategy: str, over: str, seconds: float) -> Advice:
        gain = Gain(seconds_per_frame=seconds, basis="measured", over=over)
        return advice(rule, strategy=strategy, gain=gain, snippet=rule)

    found = (
        told("faults", "registered", "managed", 0.5),
        told("other", "pinned", "pageable", 0.4),
        told("copies", "registered", "pageable", 0.1),
    )
    undecided = recommendation("registered", verdict="open", bound=0.08, speedup=None, interval=None)
    page = page_of(profile(advice=found, recommendation=undecided))
    assert [f.rule for f in blocks(page, Findings)[0].items] == ["copies", "other", "faults"]
