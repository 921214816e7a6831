"""Profiles at the edges of the format are a right page; what lies beyond is refused with its place."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from builders import prediction, profile, recommendation
from every import every

from advisor.errors import FileProblem
from advisor.profiles.reading import parse
from advisor.report.markdown import LIMIT
from advisor.report.pages import page_of, render

BASE = json.loads(profile(predictions=(prediction(),), recommendation=recommendation()).model_dump_json())


def changed(change: Callable[[dict[str, Any]], Any]) -> str:
    made = copy.deepcopy(BASE)
    change(made)
    return json.dumps(made)


def first(**fields: Any) -> Callable[[dict[str, Any]], Any]:
    """Fields of the first measured row."""
    return lambda made: made["results"][0].update(fields)


def buffers(count: int) -> Callable[[dict[str, Any]], Any]:
    one = BASE["workload"]["buffers"][0]
    return lambda made: made["workload"].update(buffers=[{**one, "name": f"b{i}"} for i in range(count)])


def buffer(**fields: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda made: made["workload"]["buffers"][0].update(fields)


def stages(*every: int, **fields: Any) -> Callable[[dict[str, Any]], Any]:
    """How often each stage runs, and fields of the first."""

    def change(made: dict[str, Any]) -> None:
        for stage, often in zip(made["workload"]["stages"], every, strict=False):
            stage["every"] = often
        made["workload"]["stages"][0].update(fields)

    return change


RIGHT = {
    "10,000 buffers": buffers(10_000),
    "no buffer": buffers(0),
    "5,000 stages": first(stage_seconds={f"s{i}": 0.001 for i in range(5_000)}),
    "tiny time": first(median_seconds=1e-11, interval_seconds=[1e-12, 1e-10]),
    "vast time": first(median_seconds=1e14, interval_seconds=[1e13, 1e15]),
    "one vast frame": first(frame_seconds=[1e15] + [0.04] * 89),
    "vast set-up": first(setup_seconds=1e15),
    "name without letters": lambda made: (
        first(strategy="")(made),
        made["recommendation"].update(baseline=None),
    ),
    "no rows": lambda made: made.update(results=[], recommendation=None),
    "integer of 400 digits": lambda made: made["workload"].update(parameters={"n": 10**400}),
}


@every("name", RIGHT)
def test_extreme_profile_is_a_right_page(name: str) -> None:
    page = page_of(parse(changed(RIGHT[name]), "profile.json"))
    html, text = render(page, "html"), render(page, "txt", bars=True)
    assert len(html.encode()) < 400_000
    assert len(render(page, "md")) < LIMIT
    assert max(map(len, text.splitlines())) <= 80
    for said in (re.sub(r'href="data:[^"]*"', "", html), text):
        assert not re.search(r"\b(nan|inf)\b", said)


WRONG = {
    "results.0.measured.median_seconds": first(median_seconds=-1),
    "results.0.measured.setup_seconds": first(setup_seconds=1.1e15),
    "results.0.measured.footprint.physical_bytes": first(
        footprint={**BASE["results"][0]["footprint"], "physical_bytes": 2**64}
    ),
    "results.0.measured.median_seconds: Input": first(median_seconds=1e-13, interval_seconds=[1e-13, 1]),
    "results.0.measured.frame_seconds.0": first(frame_seconds=[1e-320] * 90),
    "results.0.median_seconds: 0.04 is not within": first(interval_seconds=[0.01, 0.02]),
    "results.0.measured.interval_seconds": first(interval_seconds=[0.05, 0.01]),
    "recommendation.interval": lambda made: made["recommendation"].update(interval=[9.0, 1.0]),
    "recommendation.speedup": lambda made: made["recommendation"].update(speedup=9.0),
    "recommendation.strategy": lambda made: made["recommendation"].update(strategy="other"),
    "recommendation.baseline": lambda made: made["recommendation"].update(baseline="other"),
    "recommendation.tied_with": lambda made: made["recommendation"].update(tied_with=["other"]),
    "predictions.0.results.0.likely_seconds": lambda made: made["predictions"][0]["results"][0].update(
        likely_seconds=1.0
    ),
    "predictions.0.recommendation.strategy": lambda made: made["predictions"][0].update(results=[]),
    "predictions: the device": lambda made: made["predictions"].append(made["predictions"][0]),
    "results.0.timeline.spans.0.end_seconds": first(
        timeline={
            "source": "events",
            "frame_seconds": 1.0,
            "spans": [{"track": "host", "label": "x", "begin_seconds": 0.5, "end_seconds": 0.1}],
        }
    ),
    "buffers.0.bytes": buffer(bytes=5),
    "buffers.0.shape": buffer(shape=[-1]),
    "buffers.0.shape: ()": buffer(shape=[]),
    "buffers.0.dtype": buffer(dtype='x");import os;("'),
    "buffers.0.dtype: NumPy": buffer(dtype="[('a', '<f4')] # x"),
    "buffers.0.name": buffer(name="a; import os"),
    "buffers.0.name: 'if'": buffer(name="if"),
    "stages.0.name": stages(name="p\nimport os #"),
    "workload.stages.1.every": stages(1, 999_999_999, 1_000_000_007),
    "stages: every": stages(997, 991, 983),
    "the strategy 'pageable' appears twice": lambda made: made["results"].append(made["results"][0]),
    "the strategy 'pinned' appears twice": lambda made: made["predictions"][0]["results"].append(
        made["predictions"][0]["results"][1]
    ),
}


@every("place", WRONG)
def test_wrong_profile_is_refused_with_the_place(place: str) -> None:
    with pytest.raises(FileProblem) as raised:
        parse(changed(WRONG[place]), "profile.json")
    assert raised.value.message.startswith("profile.json is damaged")
    assert place in raised.value.message


@every("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_times_that_are_no_numbers_are_refused(value: str) -> None:
    text = changed(first(median_seconds=123.456)).replace("123.456", value)
    with pytest.raises(FileProblem, match="is damaged"):
        parse(text, "profile.json")
