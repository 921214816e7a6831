"""What the report says of the model's error: against published figures, and against this very run."""

from __future__ import annotations

import re

from builders import (
    prediction,
    profile,
    recommendation,
)
from every import every

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
