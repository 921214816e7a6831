"""What is sure although the fastest cannot be told."""

from __future__ import annotations

from builders import (
    MIB,
    cpu_profile,
    footprint,
    measured,
    predicted,
    prediction,
    profile,
    recommendation,
)
from rendering import blocks, shown

from advisor.profiles.schema import Profile
from advisor.report import page_of
from advisor.report.blocks import Table, kept_rows
from advisor.report.evidence import fastest_first
from advisor.report.ranking import certainties
from advisor.report.tables import rows


def undecided(*names: str) -> Profile:
    """pinned and zero-copy and managed tie in time; zero-copy and managed need half the memory."""
    half = footprint(pinned=96 * MIB)
    return profile(
        results=(
            measured("pageable", 0.040),
            measured("pinned", 0.021),
            measured("zero-copy", 0.020, footprint=half),
            measured("managed", 0.022, footprint=half),
        ),
        recommendation=recommendation(
            None, verdict="inconclusive", speedup=None, interval=None, tied_with=names
        ),
    )


def test_rivals_by_time_and_what_tells_them_apart() -> None:
    told = {e.label: e.value for e in certainties(undecided("pinned", "zero-copy", "managed"))}
    assert told == {
        "One of these is the fastest": "`zero-copy`, `pinned` and `managed`",
        "Surely slower": "`pageable`",
        "Least memory of the first": "`zero-copy` and `managed`: 96.0 MiB",
        "Smallest change of the first": "`managed`",
    }


def test_nothing_slower_and_the_same_memory_are_said_so() -> None:
    told = {e.label: e.value for e in certainties(undecided("zero-copy", "managed"))}
    assert told["Least memory of the first"] == "all take the same, 96.0 MiB"
    everyone = certainties(undecided("pageable", "pinned", "zero-copy", "managed"))
    assert "Surely slower" not in {e.label for e in everyone}


def test_a_verdict_needs_no_certainties() -> None:
    assert certainties(profile(recommendation=recommendation())) == ()
    assert certainties(profile()) == ()
    assert certainties(undecided("pinned")) == ()


def test_brief_rows_keep_the_baseline_and_the_order() -> None:
    many = tuple(measured(f"s{i}", 0.01 + i / 1e3) for i in range(12))
    run = fastest_first(profile(results=(measured("pageable", 0.5), *many)))
    kept = kept_rows(rows(run), 10)
    assert [row.name for row in kept] == [*(f"s{i}" for i in range(9)), "pageable"]


def test_brief_forecasts_keep_the_baseline_and_the_recommended_one() -> None:
    """Both are the slowest of twelve: what is recommended may be what needs the least memory."""
    rows = [predicted(f"s{i}", 0.010 + 0.001 * i) for i in range(10)]
    slow = (predicted("lean", 0.050), predicted("pageable", 0.060))
    made = prediction(results=(*slow, *rows), recommendation=recommendation("lean"))
    run = cpu_profile(predictions=(made,))
    (table, *_) = blocks(page_of(run), Table, "predictions")
    kept = [row.name for row in kept_rows(table.rows, 10)]
    assert kept == ["lean", "pageable", *(f"s{i}" for i in range(8))]
    assert "| `pageable` | 60.0 ms" in shown(run, "md")


def test_one_more_device_is_one_device() -> None:
    five = tuple(prediction(f"card {i}") for i in range(5))
    assert "- and 1 more device in the report\n" in shown(cpu_profile(predictions=five), "md")
