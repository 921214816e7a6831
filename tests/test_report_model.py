"""What the report says of the model's error: against published figures, and against this very run."""

from __future__ import annotations

import re

import pytest
from builders import cpu_profile, prediction, profile, recommendation
from every import every

from advisor.model.measured import by_class
from advisor.report import answering, profile_page
from advisor.report.pages import page_of, render


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
