"""Makes advisor/rules/examples.json: what each rule says of a committed profile (`make rules-examples`).

The first of these that a rule speaks of: the measured runs of an H200, else its own case in data/rules,
a profile made for its tests. The model's estimates are left out: they change whenever the model does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from advisor.profiles.reading import load
from advisor.profiles.schema import Profile
from advisor.report.advising import Finding, findings
from advisor.rules import RULES
from advisor.rules.advise import advise
from advisor.rules.explaining import PATH

DATA = Path(__file__).parent / "data"
MEASURED = tuple(DATA / f"h200-{name}.json" for name in ("vector_add", "reread-8"))
COMMAND = "make rules-examples"


def examples() -> dict[str, dict[str, Any]]:
    """By rule; one without a profile that it speaks of is left out."""
    measured = {path: _advised(path) for path in MEASURED}
    made: dict[str, dict[str, Any]] = {}
    for rule in RULES:
        own = DATA / "rules" / f"{rule.id}.json"
        for path, run in {**measured, **{p: _advised(p) for p in (own,) if p.exists()}}.items():
            told = next((f for f in findings(run) if f.rule == rule.id and f.outcome == "advice"), None)
            if told and rule.id not in made:
                made[rule.id] = _example(told, run, path)
    return made


def _advised(path: Path) -> Profile:
    """The profile with the advice of the rules as they are now."""
    run = advise(load(path))
    blind = [
        a.model_copy(update={"gain": a.gain.model_copy(update={"estimated_seconds_per_frame": None})})
        if a.gain
        else a
        for a in run.advice
    ]
    return run.model_copy(update={"advice": tuple(blind)})


def _example(told: Finding, run: Profile, path: Path) -> dict[str, Any]:
    kind = "a measured run" if path in MEASURED else "a run made up for the tests"
    return {
        "from": f"{kind} of {run.workload.name} on {run.device.name} (tests/{path.relative_to(DATA.parent)})",
        "title": told.title.rstrip("."),
        "detail": told.detail,
        "gain": told.gain,
        "evidence": [f"{figure.label}: {figure.value}" for figure in told.evidence],
    }


def text() -> str:
    """The file."""
    return json.dumps({"made_by": COMMAND, "rules": examples()}, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
