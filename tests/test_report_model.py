"""What the report says of the model's error: against published figures, and against this very run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from builders import (
    catalogue_device,
    cpu_profile,
    measured,
    prediction,
    profile,
    recommendation,
    skipped,
    vector_add_trace,
)
from every import every
from rendering import blocks, shown

from advisor.model import accuracy
from advisor.model.accuracy import Accuracy
from advisor.model.measured import compare
from advisor.model.sensitivity import sensitivity
from advisor.profiles.reading import load
from advisor.profiles.schema import Device, MemoryClass, Profile
from advisor.report import evidence
from advisor.report.blocks import Fold, Group, Prose, Table
from advisor.report.evidence import beside_model
from advisor.report.pages import page_of, render

KNOWN: dict[str, Any] = {
    "cases": 31,
    "figures": 132,
    "choices": 17,
    "right_share": 0.94,
    "ratio_median": 0.9,
    "ratio_90": 1.0,
    "ratio_error_median": 0.1,
    "inside_share": 0.92,
    "ratio_inside_share": 0.8,
    "rank_correlation": 0.9,
}


def known(monkeypatch: pytest.MonkeyPatch, **classes: dict[str, Any]) -> None:
    rows = {name.replace("_", "-"): Accuracy(**{**KNOWN, **row}) for name, row in classes.items()}
    monkeypatch.setattr(accuracy, "by_class", lambda: rows)


def predictions(*classes: MemoryClass) -> tuple[Any, ...]:
    return tuple(prediction(device=catalogue_device(f"device {c}", c)) for c in classes)


def test_the_error_of_a_memory_class_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, discrete={})
    assert evidence.error_sentence("discrete") == (
        "On devices left out of its fit, the model checked with 132 published figures for this memory class: "
        "the best or within 5 % of it in 94 % of 17 choices; 92 % of the figures lie in the predicted range "
        "(docs/accuracy.md)."
    )


def test_few_cases_are_said_to_say_little(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, discrete={"cases": 9}, tegra={"cases": 10})
    assert evidence.error_sentence("discrete").endswith("Only 9 cases: too few to rely on.")
    assert "too few" not in evidence.error_sentence("tegra")


def test_shares_that_no_case_gives_are_not_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, discrete={"right_share": None, "inside_share": None, "choices": 0})
    told = evidence.error_sentence("discrete")
    assert "no choice could be checked (docs/accuracy.md)" in told
    assert "range" not in told


def test_a_class_without_published_cases_has_no_known_error(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, discrete={})
    for memory in ("coherent", None):
        assert "is unknown" in evidence.error_sentence(memory)  # type: ignore[arg-type]


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


def test_every_form_has_the_error_beside_its_predictions() -> None:
    run = cpu_profile()
    html = shown(run, "html")
    assert html.count("On devices left out of its fit, the model checked with ") == len(run.predictions)
    assert shown(run, "md").count("Prediction accuracy") == 1
    assert len([line for line in shown(run, "details").splitlines() if "Prediction accuracy" in line]) == 1
    assert "ublished figures" not in shown(profile(), "html")
    assert "Prediction accuracy" not in shown(profile(), "details")


def test_a_device_of_which_nothing_is_predicted_needs_no_error() -> None:
    declined = prediction(results=(skipped(),), recommendation=None)
    page = page_of(cpu_profile(predictions=(declined,)))
    assert blocks(page, Group, "predictions")
    assert not [prose for prose in blocks(page, Prose) if "published figures of this memory" in prose.text]


def on_rtx_4090(**seconds: float) -> Profile:
    """vector_add measured there with these times per frame."""
    rows = tuple(measured(name.replace("_", "-"), time) for name, time in seconds.items())
    device = Device(name="NVIDIA GeForce RTX 4090", kind="cuda", memory_class="discrete")
    return profile(device=device, results=rows, traffic=vector_add_trace())


def test_predicted_stands_beside_measured_on_the_same_device() -> None:
    likely = {row.strategy: row.likely for row in compare(on_rtx_4090(pageable=1.0, pinned=1.0)).rows}
    run = on_rtx_4090(pageable=likely["pageable"], pinned=100 * likely["pinned"], zero_copy=1e-6)
    _, said, fold = beside_model(compare(run))
    assert isinstance(said, Prose)
    assert isinstance(fold, Fold)
    assert isinstance(fold.blocks[0], Table)
    rows = fold.blocks[0].rows
    assert [(row.name, row.cells[3].value) for row in rows] == [
        ("zero-copy", "outside: faster than predicted"),
        ("pageable", "inside"),
        ("pinned", "outside: slower than predicted"),
    ]
    assert (rows[1].cells[2].value, rows[2].cells[2].value) == ("1.00×", "0.0100×")
    assert said.text.startswith("1 of 3 measured times lie in the predicted range.")
    html = shown(run, "html")
    assert html.count("Predicted and measured times on this device</h3>") == 1
    assert ">outside: slower than predicted</td>" in html
    assert "not compared" not in html


def test_without_an_entry_there_is_no_comparison_but_its_reason() -> None:
    html = shown(profile(), "html")
    assert "Predicted against measured" not in html
    assert "not compared with these figures: the catalogue has no entry for Test discrete" in html
    assert "not compared" not in shown(cpu_profile(), "html"), "nobody expects it of a CPU"
    assert "not compared" not in shown(profile(results=(skipped(),)), "html")


def test_what_would_change_the_models_choice_is_saved_and_drawn_without_a_model() -> None:
    made = sensitivity(load(Path(__file__).parent / "data" / "h200-reread-8.json"))
    assert [one.question for one in made.sensitivity] == ["reads", "larger", "smaller"]
    (table,) = [t for t in blocks(page_of(made), Table) if t.kind == "turns"]
    one, cell = made.sensitivity[0], table.rows[0].cells[0].value
    assert cell == (f"{one.strategy} from {one.factor}× on" if one.factor else "no change up to 64×")
    without = made.model_copy(update={"sensitivity": ()})
    assert not [t for t in blocks(page_of(without), Table) if t.kind == "turns"]


def test_only_strategies_of_the_profile_change_the_choice() -> None:
    """As after --strategy pageable --strategy managed: another one has no row to point to."""
    profile = load(Path(__file__).parent / "data" / "h200-reread-8.json")
    rows = tuple(row for row in profile.results if row.strategy in ("pageable", "managed"))
    few = profile.model_copy(update={"results": rows, "recommendation": None, "predictions": ()})
    assert len(rows) == 2
    assert {one.strategy for one in sensitivity(profile).sensitivity} - {None, "pageable", "managed"}
    assert {one.strategy for one in sensitivity(few).sensitivity} <= {None, "pageable", "managed"}
