"""The published JSON Schema is the program's own, and real files hold to it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import builders
import jsonschema
import pytest

from advisor.profiles.schema import Profile

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "docs" / "profile.schema.json"
SAMPLE = ROOT / "tests" / "data" / "profile-format-2.json"
REGENERATE = "python -m advisor.profiles.reading > docs/profile.schema.json"


@pytest.fixture(scope="module")
def schema() -> Any:
    return json.loads(PUBLISHED.read_text(encoding="utf-8"))


def test_the_published_schema_is_up_to_date(schema: Any) -> None:
    assert schema == Profile.model_json_schema(), f"the schema has changed: run `{REGENERATE}`"


def test_the_command_prints_what_is_published() -> None:
    done = subprocess.run(
        [sys.executable, *REGENERATE.split()[1:3]], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == PUBLISHED.read_text(encoding="utf-8"), f"run `{REGENERATE}`"
    assert done.stderr == ""


@pytest.mark.parametrize("make", [builders.profile, builders.cpu_profile])
def test_profiles_hold_to_it(make: Any, schema: Any) -> None:
    jsonschema.validate(json.loads(make().model_dump_json()), schema)


def test_the_sample_of_this_format_holds_to_it(schema: Any) -> None:
    jsonschema.validate(json.loads(SAMPLE.read_text(encoding="utf-8")), schema)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 1},
        {"format": 3},
        {"extra": 1},
        {"results": [{"status": "great"}]},
        {"device": {"name": "x"}},
    ],
)
def test_what_the_program_refuses_does_not_hold_to_it(change: Any, schema: Any) -> None:
    content = {**json.loads(SAMPLE.read_text(encoding="utf-8")), **change}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, schema)
