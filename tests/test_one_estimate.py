"""One estimate: what is printed side by side agrees, and the first of a table is what `fastest` names."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from builders import MIB, final_block, final_record, footprint, measured, profile
from every import every
from hypothesis import given, settings
from hypothesis import strategies as st
from running import missing

from advisor.profiles.conclusions import Objective, Preferences
from advisor.profiles.schema import Profile
from advisor.report import pages
from advisor.report.answering import measured_answer
from advisor.report.recommendations import headline, remark
from advisor.rules import advise
from advisor.verdicts.measured import decided, recommend, speeds
from advisor.verdicts.scores import figures_of

GOLDEN = Path(__file__).parent / "golden"
UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
TIME = r"(\d[\d.,]*)[ \u00a0\u202f](s|ms|µs|ns)"
PATTERNS = {
    "txt": re.compile(rf"^[→≈ ] (?P<name>\S.*?) {{2,}}{TIME} .*? (?P<ratio>\d[\d.]*)×"),
    "details": re.compile(rf"^[→≈ ] (?P<name>\S.*?) {{2,}}{TIME} .*? (?P<ratio>\d[\d.]*)×"),
    "md": re.compile(rf"^\| (?:→ )?`(?P<name>[^`]+)`[^|]*\| {TIME} \|[^×]*?\| (?P<ratio>\d[\d.]*)× \|"),
    "html": re.compile(rf"<title>(?P<name>[^:<]+): {TIME} \([^)]*\),(?: gain)? (?P<ratio>\d[\d.]*)×"),
}
PROFILES = ("all", "figures", "gpu", "h200", "late")
"""Pages that have times beside ratios in each form."""
SIDES = re.compile(rf"^\|? *`?(?P<name>[\w-]+)`?[^|]*?[| ]+{TIME}[| ]+{TIME}[| ]+(?P<ratio>\d[\d.]*)×")
"""BASE, HEAD and the ratio of a comparison."""


class Printed(NamedTuple):
    """A figure and half of its last digit."""

    value: float
    half: float

    @classmethod
    def of(cls, digits: str, unit: str = "s") -> Printed:
        plain = digits.replace(",", "")
        decimals = len(plain.partition(".")[2])
        # Three digits are printed: of 384, or 23,900, the last one that counts is not the last one there.
        return cls(float(plain) * UNITS[unit], 0.5 * 10.0**-decimals * UNITS[unit])


def agree(above: Printed, below: Printed, ratio: Printed) -> bool:
    least = (above.value - above.half) / (below.value + below.half)
    most = (above.value + above.half) / (below.value - below.half)
    return least - ratio.half <= ratio.value * (1 + 1e-9) and ratio.value * (1 - 1e-9) <= most + ratio.half


def tables(text: str, form: str) -> Iterator[list[tuple[str, Printed, Printed]]]:
    """Rows with a time and a gain, those of a table together."""
    parts = re.split('<table|role="table"', text) if form == "html" else text.splitlines()
    rows: list[tuple[str, Printed, Printed]] = []
    for part in parts:
        found = list(PATTERNS[form].finditer(part))
        if rows and (form == "html" or not found):
            yield rows
            rows = []
        rows += [(unescape(m["name"]), Printed.of(m[2], m[3]), Printed.of(m["ratio"])) for m in found]
    if rows:
        yield rows


def require_agreement(text: str, form: str) -> int:
    """Each gain is the baseline's time over the row's; how many were divided."""
    divided = 0
    for rows in tables(text, form):
        base = next((time for name, time, ratio in rows if "pageable" in name and ratio.value == 1), None)
        for name, time, ratio in rows if base else ():
            assert base is not None
            assert agree(base, time, ratio), (name, base, time, ratio)
            divided += 1
    return divided


def require_sides(text: str) -> int:
    """The same of HEAD's times over BASE's."""
    found = [match for line in text.splitlines() if (match := SIDES.match(line))]
    for each in found:
        base, head = Printed.of(each[2], each[3]), Printed.of(each[4], each[5])
        assert agree(head, base, Printed.of(each["ratio"])), each[0]
    return len(found)


PAGES = sorted(
    path for path in GOLDEN.iterdir() if path.suffix[1:] in PATTERNS and "refused" not in path.name
)


@every("path", PAGES, ids=lambda path: path.name)
def test_the_printed_times_of_a_page_give_its_printed_ratios(path: Path) -> None:
    text, form, page = path.read_text(encoding="utf-8"), path.suffix[1:], path.stem.partition("-")[0]
    if page == "compare":
        assert form == "html" or require_sides(text)
    else:
        divided = require_agreement(text, form)
        assert divided or page not in PROFILES


def against_a_mix(ratio: float, noise: float = 0.002, **sizes: int) -> Profile:
    """`pinned` takes that many times as long as the mix; eight processes of four rounds; sizes in MiB."""
    random, seconds = np.random.default_rng(1), {"pageable": 4.0, "pinned": ratio, "hybrid-1": 1.0}
    blocks = tuple(
        final_block(p, r, name, seconds[name] * math.exp(random.normal(0, noise)), place=k)
        for p, r in np.ndindex(8, 4)
        for k, name in enumerate(seconds)
    )
    record = final_record(seconds, processes=8, rounds=32)
    rows = [
        measured(name, 1.0, samples="blocks", footprint=footprint(pinned=sizes.get(name, 64) * MIB))
        for name in seconds
    ]
    rows[-1] = rows[-1].model_copy(update={"placements": {"mask": "zero-copy", "image": "pinned"}})
    out = measured(
        "zero-copy", 9.0, rounds=1, outside="screened out: 9 times", footprint=footprint(pinned=MIB)
    )
    return advise.concluded(profile(results=(*rows, out), blocks=blocks, final=record))


@every(
    ("ratio", "noise", "verdict", "strategy"),
    [
        (1.03, 0.002, "near", "pinned"),  # a preference
        (1.09, 0.002, "fastest", "hybrid-1"),
        (1.05, 0.02, "open", "pinned"),  # neither inside nor outside
        (1.08, 0.06, "open", "pinned"),
        (0.97, 0.002, "fastest", "pinned"),
    ],
)
def test_bounds_are_over_mixes_too(ratio: float, noise: float, verdict: str, strategy: str) -> None:
    run = against_a_mix(ratio, noise)
    chosen = run.recommendation
    assert (chosen.verdict, chosen.strategy) == (verdict, strategy)
    assert run.final is not None
    rows = list(run.measured().values())
    assert decided(run.blocks, rows, run.preferences, run.final).settled == (verdict != "open")
    told = " ".join(pages.render(pages.page_of(run), "txt").split())
    if verdict == "near":
        assert (chosen.faster_mix.strategy, chosen.faster_mix.buffers) == ("hybrid-1", ("mask",))
        assert chosen.faster_mix.ratio == pytest.approx(ratio, rel=0.005)
        assert not missing(told, "simpler than `mask`", "which is 3 % faster")
    if verdict == "open":
        assert chosen.bound is not None
        assert chosen.bound > 0.05
        assert not missing(told, "`pinned` is simplest", "`mask`", "pinned is", "faster (")
        as_fast = chosen.faster_mix.model_copy(update={"ratio": 1.004, "interval": (0.94, 1.07)})
        doubtful = chosen.model_copy(update={"faster_mix": as_fast})
        assert "leads" in headline(doubtful)
        assert "looks" not in remark(doubtful, 0.95)
    first = measured_answer(run).bars[0].name
    assert verdict != "fastest" or first == strategy


def test_the_least_memory_is_that_of_all_measured_rows() -> None:
    run = against_a_mix(1.03)
    wanted = Preferences(objective="footprint")
    chosen = recommend(run.model_copy(update={"preferences": wanted}))
    assert (chosen.strategy, chosen.verdict) == ("zero-copy", "fastest"), "though screened out for its time"
    assert "least memory" in headline(chosen)
    within = wanted.model_copy(update={"memory_budget_bytes": 512 << 10})
    none_fits = recommend(run.model_copy(update={"preferences": within}))
    assert none_fits.strategy is None


NAMES = ("pageable", "pinned", "zero-copy", "hybrid-1")


@st.composite
def finals(draw: st.DrawFn) -> Profile:
    """Random times, luck, noise and gaps; a mix, and one whose frames overlap."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    processes, rounds = draw(st.integers(2, 4)), draw(st.integers(2, 4))
    levels = random.normal(-4, draw(st.sampled_from([0.003, 0.05, 0.5])), len(NAMES))
    noise = draw(st.sampled_from([0.001, 0.03]))
    logs = levels + random.normal(0, noise, (processes, rounds, len(NAMES)))
    logs += random.normal(0, 0.2, (processes, 1, 1))
    longer = random.uniform(0.5, 0.8, logs.shape)
    left_at = {name: draw(st.integers(1, 2 * processes)) for name in NAMES[1:]}
    blocks = tuple(
        final_block(
            p, r, NAMES[k], math.exp(logs[p, r, k]), place=k,
            latency_seconds=math.exp(logs[p, r, k] + longer[p, r, k]) if NAMES[k] == "pinned" else None,
        )
        for p, r, k in np.ndindex(logs.shape)
        if p < left_at.get(NAMES[k], processes)
    )  # fmt: skip
    record = final_record(NAMES, processes=processes, rounds=processes * rounds)
    rows = [measured(name, 1.0, samples="blocks") for name in NAMES]
    rows[-1] = rows[-1].model_copy(update={"placements": {"a": "pinned", "b": "zero-copy"}})
    objective: Objective = draw(st.sampled_from(["time", "throughput"]))
    made = profile(
        results=tuple(rows), blocks=blocks, final=record, preferences=Preferences(objective=objective)
    )
    return advise.concluded(made)


@settings(max_examples=80, deadline=None)
@given(finals())
def test_ratios_are_those_of_the_times_that_rows_show(run: Profile) -> None:
    chosen, objective = run.recommendation, run.preferences.objective
    assert chosen is not None
    shown = figures_of(list(run.measured().values()), objective)
    for name, ratio in speeds(run).items():
        assert ratio.value == pytest.approx(shown["pageable"] / shown[name], rel=1e-6)
    if chosen.speedup:
        assert chosen.speedup == pytest.approx(shown["pageable"] / shown[chosen.strategy or ""], rel=1e-6)
    order = sorted(shown, key=shown.__getitem__)
    assert chosen.fastest == order[0]
    assert next(iter(chosen.groups))[0] == order[0]
    if chosen.verdict == "fastest":
        assert chosen.strategy == order[0]
    bars = measured_answer(run).bars
    assert [bar.amount for bar in bars] == sorted(bar.amount for bar in bars)
    if chosen.bound is not None:
        assert shown[chosen.strategy or ""] <= shown[order[0]] * (1 + chosen.bound) * (1 + 1e-9)
