"""The page over a sweep: where the best strategy changes, in words, in lines, and in every form."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from builders import (
    altered,
    catalogue_device,
    cpu_profile,
    devices_of,
    failed,
    measured,
    predicted,
    prediction,
    profile,
    recommendation,
    skipped,
    sweep_of,
    vector_add_workload,
)
from every import every
from hypothesis import given
from hypothesis import strategies as st
from rendering import Accepted, blocks
from test_device_comparison import clear, tie, unclear
from test_report import TRACEBACK, broken
from test_report_escaping import everywhere
from test_report_view import host_only

from advisor.profiles.conclusions import Preferences, Recommendation
from advisor.profiles.schema import Profile
from advisor.profiles.sweeps import Point, ProfileSet, combine
from advisor.report.blocks import Banners, Table
from advisor.report.charts import LABEL_GAP, LOW, compact, line_chart, styles, value_axis
from advisor.report.pages import page_of, render
from advisor.report.several_pages import cell
from advisor.report.sweep_page import best_cell, listed, sweep_verdict
from advisor.sweep import parse_sweep
from advisor.verdicts.tracks import Optima, Stop, changes, runs, tracks


def at_n(n: int, chosen: Recommendation | None, **fields: Any) -> Profile:
    """Zero-copy rises faster than pinned; which is called the best is given."""
    seconds = {"pageable": 3e-5 + 1.05e-6 * n, "pinned": 1e-5 + 1e-6 * n, "zero-copy": 1.6e-6 * n}
    rows = tuple(measured(strategy, each) for strategy, each in seconds.items())
    parts = {"workload": vector_add_workload(n), "results": rows, "recommendation": chosen}
    return profile(**{**parts, **fields})


def over(*recommendations: Recommendation | None) -> ProfileSet:
    """n = 1, 4, 16, ... with these recommendations."""
    return sweep_of(*(at_n(4**i, chosen) for i, chosen in enumerate(recommendations)))


def gpu_sweep() -> ProfileSet:
    """A change with a tie in its middle, a value that cannot be told, one that failed, one not run."""
    z, p = "zero-copy", "pinned"
    made = over(clear(z), clear(z), tie(p, z), clear(p), unclear(p, "pageable"), clear(p))
    rows = (
        measured("pageable", 1.11e-3),
        measured("pinned", 1.03e-3),
        failed(z, "not enough memory", "Killed"),
    )
    last = at_n(4**5, clear(p), results=(*rows, skipped("managed")), notes=("Sampling was short.",))
    points = [*(replace(p, href=f"./n={p.value}/r.html") for p in made.points[:5]), last]
    failing = Point(4**6, status="failed", reason="MemoryError: <b>", detail="Traceback\n  line 3")
    unrun = Point(4**7, status="not run", reason="the sweep was interrupted")
    return sweep_of(*points, failing, unrun, command="advisor profile w.py --sweep n=1..16384")


def likely(n: int, *results: Any, **fields: Any) -> Profile:
    """One predicted device with these rows, and the recommendation of these fields."""
    chosen = recommendation(**{"speedup": None, "interval": None, "baseline": None, **fields})
    device = catalogue_device("NVIDIA Jetson Orin Nano 8GB", "tegra-io-coherent")
    made = prediction(device=device, results=results, recommendation=chosen)
    return cpu_profile(workload=vector_add_workload(n), predictions=(made,))


def cpu_sweep() -> ProfileSet:
    """Pageable and zero-copy predicted with wide ranges: the likely best is a bet."""
    made = []
    for n, first, second in ((1024, 2e-5, 1e-5), (4096, 4e-5, 3e-5), (16384, 8e-5, 1.2e-4)):
        rows = (predicted("pageable", first), predicted("zero-copy", second), skipped("managed", "no figure"))
        best = "pageable" if first <= second else "zero-copy"
        made.append(likely(n, *rows, strategy=best, verdict="open"))
    return sweep_of(*made, command="advisor ...")


def broken_sweep() -> ProfileSet:
    failing = Point(3, status="failed", reason="E: no", detail=TRACEBACK)
    return sweep_of(Point(1, broken()), Point(2, cpu_profile()), failing, Point(4, broken()))


def grid(size: int = 3) -> ProfileSet:
    """Zero-copy is the best of small n, pinned of large ones that are used often; one pair failed."""
    names, points = ("n", "uses"), []
    for n, uses in ((n, uses) for n in range(1, size + 1) for uses in (1, 10)):
        best = "zero-copy" if n == 1 else "pinned"
        rows = tuple(
            measured(strategy, 1e-3 * (1 if strategy == best else cost))
            for strategy, cost in (("pageable", 4.0), ("pinned", 1.2), ("zero-copy", 3.0))
        )
        workload = vector_add_workload(n).model_copy(update={"parameters": {"n": n, "uses": uses}})
        at = profile(workload=workload, results=rows, recommendation=clear(best))
        points.append(Point((n, uses), at, href=f"./n={n},uses={uses}/r.html"))
    points[-1] = Point((size, 10), status="failed", reason="too large")
    return ProfileSet("w", names, points)


SWEEPS: dict[str, Callable[[], ProfileSet]] = {
    "sweep-gpu": gpu_sweep,
    "sweep-cpu": cpu_sweep,
    "sweep-nothing": lambda: sweep_of(
        *(Point(n, status="failed", reason="ValueError: no", detail="Traceback") for n in (1, 2)),
        command="advisor profile w.py --sweep n=1,2",
    ),
    "sweep-one": lambda: over(clear("pinned")),
    "sweep-broken": broken_sweep,
    "sweep-grid": grid,
}


def test_a_sweep_over_several_devices_has_a_verdict_and_a_table_of_each(accepted: Accepted) -> None:
    """As a fleet leaves it, one device without the second value."""
    rows = measured("pinned", 1.0), failed("zero-copy", "no memory", "Killed")
    parts: tuple[dict[str, Any], ...] = ({}, {}, {}, {"notes": ("Sampling was short.",)}, {"results": rows})
    made = [at_n(n, clear("pinned"), **each) for n, each in zip((1, 4, 16, 1, 16), parts, strict=True)]
    thor = made[0].device.model_copy(update={"name": "NVIDIA Thor"})
    made[3:] = [each.model_copy(update={"device": thor}) for each in made[3:]]
    swept = combine([(Path(f"{i}.json"), each) for i, each in enumerate(made)], Path())
    accepted(render(page_of(swept), "details"), "sweep-devices.txt")
    assert "short (at n = 1 on NVIDIA Thor)" in render(page_of(swept), "md")


def test_a_predicted_device_is_that_of_the_machine_which_predicts_it_most_often() -> None:
    rows = predicted("pageable", 0.04), predicted("pinned", 0.02)
    runs = [likely(n, *rows, strategy="pinned") for n in (1, 1, 4)]
    runs[0] = altered(runs[0], "device", name="Another CPU")
    (track, *cpus) = tracks([Point(n, run) for n, run in zip((1, 1, 4), runs, strict=True)])
    assert [stop.value for stop in track.stops if stop.known] == [1, 4]
    assert [each.device.name for each in cpus] == ["Another CPU", runs[1].device.name]


A, B, C = clear("a"), clear("b"), clear("c")


def for_range(chosen: str, *seconds: dict[str, float]) -> ProfileSet:
    """n = 1, 4, ... of strategies that take so long, each with its recommendation."""
    profiles = []
    for i, (each, name) in enumerate(zip(seconds, chosen, strict=True)):
        rows = tuple(measured(strategy, s, spread=0) for strategy, s in each.items())
        profiles.append(at_n(4**i, clear(name), results=rows))
    return sweep_of(*profiles)


def twice(*rows: tuple[str, float], **fields: Any) -> ProfileSet:
    """Predicted for two values, within a tenth."""
    results = [predicted(strategy, seconds, spread=0.1) for strategy, seconds in rows]
    return sweep_of(*(likely(n, *results, strategy="a", **fields) for n in (1, 2)))


def drawn(rival: str) -> ProfileSet:
    """Zero-copy takes a tenth more than pinned, in three simulated devices as drawn."""
    rows = (predicted("pinned", 0.02, draws="1000 800 1200"), predicted("zero-copy", 0.022, draws=rival))
    chosen = {"strategy": "pinned", "verdict": "near", "tied_with": ("registered",)}
    return sweep_of(*(likely(n, *rows, **chosen) for n in (1, 2)))


def noted(*notes: str) -> ProfileSet:
    return sweep_of(*(at_n(n, A, notes=(note,) if note else ()) for n, note in enumerate(notes, 1)))


B_ALONE = (measured("b", 1.0), failed("a", "not enough memory"))
BOTH = (measured("a", 1.0), measured("b", 2.0))
SENTENCES: dict[str, ProfileSet] = {
    "the one whose worst value is the least bad, not the best most often": for_range(
        "aab", {"a": 1.0, "b": 1.5}, {"a": 1.0, "b": 1.5}, {"a": 4.0, "b": 1.0}
    ),
    "one for all": for_range("aa", {"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 2.0}),
    "recommended for its memory, 2 % behind": for_range("bb", {"a": 1.0, "b": 1.02}, {"a": 1.0, "b": 1.01}),
    "recommended for its memory, as fast": for_range("bb", {"a": 1.0, "b": 1.003}, {"a": 1.0, "b": 1.001}),
    "as good, the one recommended more often": for_range(
        "aba", {"a": 1.0, "b": 1.02}, {"a": 1.03, "b": 1.0}, {"a": 1.0, "b": 1.01}
    ),
    "none has figures everywhere": for_range("ab", {"a": 1.0, "c": 2.0}, {"b": 1.0, "d": 2.0}),
    "one change": over(A, A, B),
    "two changes": over(A, B, B, C),
    "a tie makes no change of its own": over(A, tie("b", "a"), B),
    "ties everywhere": over(tie("a", "b"), tie("a", "b")),
    "a change between ties": over(A, tie("a", "c"), tie("c", "b"), B),
    "no change to what looked fastest": over(A.model_copy(update={"verdict": "near", "fastest": "b"}), B),
    "many changes": over(*[A, B] * 4),
    "what cannot be told speaks for nobody": over(A, unclear("a", "b"), B),
    "nothing can be told": over(unclear("a", "b"), unclear("a", "b")),
    "nothing is recommended": over(None, None),
    "all failed and are predicted": sweep_of(Point(1, broken()), Point(2, broken())),
    "no device stage": sweep_of(Point(1, host_only(cpu_profile())), Point(2, host_only(cpu_profile()))),
    "one was run": sweep_of(*(at_n(n, clear("pinned"), results=(measured("pinned", 0.02),)) for n in (1, 2))),
    "interrupted": sweep_of(at_n(1, A), at_n(4, B, notes=("Interrupted after 1 of 6 measurements.",))),
    "the first has no figures later": sweep_of(at_n(1, A, results=BOTH), at_n(4, B, results=B_ALONE)),
    "predicted changes are likely": cpu_sweep(),
    "likely where a value's own report says so": twice(
        ("a", 1.0), ("b", 1.01), ("c", 1.1), verdict="near", tied_with=("b",)
    ),
    "not likely otherwise": twice(("a", 1.0), ("b", 1.01), ("c", 9.0), verdict="near", tied_with=("b",)),
    "clear": twice(("a", 1.0), ("c", 9.0), verdict="fastest"),
    "slow devices are slow for both": drawn("1000 800 1200"),
    "faster in some simulated devices": drawn("1000 1200 800"),
    "notes that are the same": noted("Same.", "Same.", "Same."),
    "notes of some values": noted("Some.", "", "Some."),
    "notes that are much the same": noted("Load 1.5.", "Load 12.", ""),
}


def test_sentences(accepted: Accepted) -> None:
    text = []
    for name, results in SENTENCES.items():
        track, notes = tracks(results.points)[0], blocks(page_of(results), Banners)[:1]
        verdict, for_all = sweep_verdict(track, "n"), sweep_verdict(track, "n", 0.95)
        lines = [verdict.headline, for_all.headline, verdict.reason, verdict.next_step]
        text += [f"## {name}", *dict.fromkeys(filter(None, lines)), *(t for n in notes for t in n.texts), ""]
    accepted("\n".join(text), "sweep-sentences.txt")


@every(
    ("wanted", "by_time"),
    [
        ({}, True),
        ({"objective": "throughput"}, True),
        ({"objective": "energy"}, False),
        ({"objective": "latency-p99"}, False),
        ({"objective": "footprint"}, False),
        ({"memory_budget_bytes": 1 << 40}, False),
    ],
)
def test_what_one_choice_for_all_costs_is_told_where_times_alone_decide(
    wanted: dict[str, Any], by_time: bool
) -> None:
    runs = [at_n(n, clear("pinned"), preferences=Preferences(**wanted)) for n in (1, 4)]
    runs[0] = runs[0].model_copy(update={"device": runs[0].device.model_copy(update={"name": "A"})})
    assert ("the best time" in render(page_of(devices_of(*runs)), "details")) == by_time
    swept = sweep_of(*(altered(run, "device", name="A") for run in runs))
    assert ("the best time" in render(page_of(swept), "details")) == by_time


def test_what_has_no_figure_at_a_value_says_why() -> None:
    for row, said in ((predicted("a", 1.0), "not predicted"), (measured("a", 1.0), "skipped")):
        stop = Stop(1, {"a": row, "b": skipped("b"), "c": failed("c")})
        assert [cell(stop, name).value for name in ("b", "c", "d")] == [said, "failed", "–"]


names = st.sampled_from("abcd")
decided = st.builds(lambda best: Optima(best, min(best)), st.frozensets(names, min_size=1, max_size=3))


@given(st.lists(decided | st.just(Optima()), max_size=12))
def test_runs_follow_the_recommendations_and_no_change_is_inside_a_tie(optima: list[Optima]) -> None:
    found = runs(optima)
    told = [run.strategy for run in found for _ in run.values]
    assert told == [s.chosen for s in optima if s.chosen]
    assert all(before.strategy != after.strategy for before, after in pairwise(found))
    made = changes(optima, found)
    for change in made:
        assert change.low < change.high
        assert change.after.strategy not in optima[change.low].best
        assert change.before.strategy not in optima[change.high].best
    if all(set(told) <= s.best for s in optima if s.best):
        assert not made


def test_labels_keep_their_distance() -> None:
    assert value_axis([7])[0] == [0.5]
    _, labels = value_axis(list(range(1, 101)))
    gaps = [b.share - a.share for a, b in pairwise(labels)]
    assert 4 <= len(labels) <= 9
    assert min(gaps) >= 1 / 9
    assert labels[-1].label == "100"
    assert 2 <= sum(label.narrow for label in labels) <= 5
    for count, width, phone in ((9, 0.0225, False), (12, 0.045, True)):
        ticks = value_axis([f"{i:07x}" for i in range(count)])[1]
        before, last = [tick for tick in ticks if tick.narrow or not phone][-2:]
        assert 0.9 * (last.share - before.share) >= 1.5 * 7 * width, "its end is at its place"


SHORT = {512: "512", 1024: "2¹⁰", 1 << 24: "2²⁴", 1000: "1000", 1_500_000: "1.5M", 0.25: "0.25", True: "True"}
SHORT |= {"f4": "f4", "a-very-long-value": "a-very-long…", 20_000: "20k"}
RANGES = {(1, 4, 16): "1 to 16", (4, 1, 16): "4, 1 and 16", ("a", "b", "c"): "a, b and c"}


def test_values_are_short_and_a_range_is_of_numbers_in_their_order() -> None:
    assert {value: compact(value) for value in SHORT} == SHORT
    assert {values: listed(values) for values in RANGES} == RANGES


@every("last", [1.0, 5.0, 10.0])
def test_labels_at_the_ends_do_not_cover_one_another(last: float) -> None:
    seconds = {name: (1.0, last + i / 1e4) for i, name in enumerate("abcdefgh")} | {"top": (10.0, 10.0)}
    stops = [
        Stop(at, {name: measured(name, each[at > 0]) for name, each in seconds.items()}, Optima(chosen=name))
        for at, name in enumerate(seconds)
    ]
    looks = styles(list(seconds))
    alone, made = (line_chart("t", "n", drawn, looks, height=LOW) for drawn in (stops[:1], stops))
    assert [line.strategy for line in alone.lines] == ["a", "b"], "the two fastest"
    assert alone.note.endswith("The table also has 7 other strategies.")
    places = sorted(line.label_at * made.height for line in made.lines)
    assert len(places) == 9
    assert min(b - a for a, b in pairwise(places)) >= LABEL_GAP - 0.11
    assert places[0] >= 0
    assert places[-1] <= made.height


def test_ranges_of_values_without_an_order_are_drawn_as_the_note_says() -> None:
    named = [Point(name, point.profile) for name, point in zip("abc", cpu_sweep().points, strict=True)]
    for sweep, said, drawn in (
        (cpu_sweep(), "Bands show the ranges", 'class="band'),
        (ProfileSet("vector_add", ("mode",), named), "Vertical lines show the ranges", 'class="interval'),
    ):
        page = render(page_of(sweep), "html")
        assert said in page
        assert [mark in page for mark in ('class="band', 'class="interval')].count(True) == 1
        assert drawn in page


def hostile_sweep(text: str) -> ProfileSet:
    made = [everywhere(text) for _ in range(2)]
    points = [Point(f"{text}{i}", p, href="./x") for i, p in enumerate(made)]
    return ProfileSet(text, (text,), [*points, Point(f"{text}9", None, "failed", text, text)], text)


@given(st.lists(st.integers(1, 500), min_size=2, max_size=4, unique=True).map(sorted))
def test_a_closer_look_holds_values_that_were_not_tested(values: list[int]) -> None:
    points = [Point(n, at_n(1, chosen)) for n, chosen in zip(values, [A, B] * 2, strict=False)]
    step = sweep_verdict(tracks(points)[0], "n").next_step
    assert bool(step) == any(b - a > 1 for a, b in pairwise(values)), "where whole numbers lie between"
    if step:
        (swept,) = parse_sweep([step.removeprefix("Refine: `--sweep ").removesuffix("`.")])
        assert any(values[0] < int(text) < values[-1] for text in swept.values if int(text) not in values)


def test_the_largest_grid_and_a_pair_that_does_not_decide() -> None:
    text, html = (render(page_of(grid(6)), form) for form in ("md", "html"))
    assert text.count("| zero-copy") == 2
    assert len(re.findall(r"1\.00\sms, pinned 1\.20×", html)) == 2
    tables = [blocks(page_of(replace(grid(), points=grid().points[::i])), Table, "grid-0") for i in (1, -1)]
    assert tables[0] == tables[1], "numbers rise"
    rows = {name: measured(name, seconds) for name, seconds in (("a", 2e-3), ("b", 1e-3), ("c", 1.5e-3))}
    stop = Stop(1, rows, Optima(frozenset("a"), "a", likely=True, overlaps=True))
    assert [best_cell(stop, safe).value for safe in ("a", "b", "c", "")] == ["a", "b", "a", "a"]
