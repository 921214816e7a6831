"""What was measured: the strategies side by side in tables and charts, the fastest first in all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from advisor import units
from advisor.model.measured import ModelAgainstRun
from advisor.profiles.schema import Measured, Profile
from advisor.report import words
from advisor.report.blocks import (
    Block,
    Column,
    Fold,
    Group,
    Heading,
    Item,
    Items,
    Prose,
    Row,
    Table,
    TableCell,
)
from advisor.report.charts import footprint_chart, frame_chart, overlap_note
from advisor.report.distribution import distribution, spread
from advisor.report.failures import undoubted
from advisor.report.methods import measured_label
from advisor.report.more_figures import more_figures
from advisor.report.page import Section, filled
from advisor.report.tables import apart, baseline, gaps, overlaps, rows, setup_costs
from advisor.verdicts.counting import counted

_ON_CPU = (
    "The workload ran here with NumPy for CuPy: this checks it, times its host stages and counts what each "
    "stage reads and writes. These times say nothing about a GPU's."
)
_PARTS = (
    "Parts are grouped by kind, not in the order of time, and each is a median of its own. The bracket below "
    "is the interval of the whole frame."
)
_BESIDE = "Predicted against measured on this device"


def evidence(profile: Profile, against: ModelAgainstRun) -> Section:
    """All of it; charts where something was measured. `against` is the model's comparison with the run."""
    cpu, missing = profile.device.kind == "cpu", gaps(profile.results)
    blocks = filled(
        Prose(_ON_CPU if cpu else "", forms="html"),
        *(_side_by_side(profile, missing) if profile.measured() else _gaps(missing)),
        *(beside_model(against) if against.rows else ()),
    )
    return Section(
        "evidence",
        "Measured on this CPU, not on a GPU" if cpu else "Strategies side by side",
        blocks if profile.results else (Prose("Nothing was run.", forms="html"),),
        nav="On this CPU" if cpu else "Strategies",
    )


def _side_by_side(profile: Profile, missing: tuple[Item, ...]) -> Iterator[Block]:
    cpu, raw = profile.device.kind == "cpu", profile.measured()
    ordered = fastest_first(counted(undoubted(profile)))
    measured = tuple(raw[name] for name in ordered.measured())
    yield strategies(profile)
    yield from _gaps(missing)
    yield Heading("Where the time of a frame goes", "stages")
    yield replace(frame_chart(ordered), notes=tuple(filter(None, (_PARTS, overlap_note(profile)))))
    if not cpu:
        yield Heading("Memory", "memory", "Memory")
        note = (
            "The physical total counts managed memory on a card on both sides, other memory that both sides "
            "see once."
        )
        yield replace(footprint_chart(ordered), notes=(note,))
    yield Heading("Spread of the frames", "spread", "" if cpu else "Frames")
    yield spread(measured)
    own = tuple(distribution(row, i) for i, row in enumerate(measured, 1))
    yield Fold("Each strategy on its own axis", (Group("strips", own),), kind="folded own")
    if not cpu:
        yield from more_figures(profile, measured)
        yield Heading("Set-up, and when it pays", "setup", "Set-up")
        yield _setup(profile, measured)


def _gaps(missing: tuple[Item, ...]) -> tuple[Block, ...]:
    """The short forms tell failures before the verdict."""
    return (
        Items(missing, "Strategies without figures", forms="html"),
        Items(tuple(gap for gap in missing if gap.status != "failed"), forms="md txt"),
    )


def _base_name(profile: Profile) -> str:
    base = baseline(profile)
    return words.name(base.strategy) if base else "baseline"


def strategies(profile: Profile) -> Table:
    """The measured strategies; Markdown has it where there is no table of predictions."""
    named, label, cpu = _base_name(profile), measured_label(profile), profile.device.kind == "cpu"
    interval = f"{units.percent(profile.method.confidence)} interval"
    told = rows(fastest_first(counted(undoubted(profile))), overlaps(profile))
    columns = (
        Column("time per frame", notes=interval, brief="frame", bars="measured", ascending=True),
        Column(f"speed against `{named}`", brief=f"vs {named}"),
        Column("memory", "host and device" if apart(profile.device) else ""),
        Column("device path", forms="html"),
        Column("results", figures=False, forms="html"),
    )
    checked = all(row.verified for row in profile.measured().values())
    kept = len(columns) - checked
    return Table(
        "strategies",
        "strategy",
        columns[:kept],
        tuple(replace(row, cells=row.cells[:kept]) for row in told),
        caption=f"Fastest first, {label}. Beneath each figure its {interval} or what qualifies it."
        + " The results of all were compared and agree." * checked,
        title=f"Frames {label}:" * cpu,
        identifier="strategies",
        sortable=True,
        forms="html txt" if cpu and profile.predictions else "html md txt",
    )


def _setup(profile: Profile, measured: tuple[Measured, ...]) -> Table:
    return Table(
        "setup",
        "strategy",
        tuple(map(Column, ("set-up, once", "more set-up", "saved per frame", "pays"))),
        setup_costs(measured, baseline(profile), profile.method.confidence),
        caption="Set-up is paid once: allocate, pin, set-up stages, first frame. A strategy that costs more "
        f"of it than `{_base_name(profile)}` pays after so many frames; a program that runs fewer should not "
        "change.",
        identifier="setup",
        sortable=True,
        forms="html",
    )


def beside_model(found: ModelAgainstRun) -> tuple[Block, ...]:
    """Measured, predicted, predicted over measured, and where the measured time lies; the fastest first."""
    told = []
    for row in sorted(found.rows, key=lambda row: row.measured):
        between = words.seconds_between(row.low, row.high)
        outside = f"outside: {'slower' if row.measured > row.high else 'faster'} than predicted"
        cells = (
            TableCell(units.seconds(row.measured)),
            TableCell(units.seconds(row.likely), between, mark="forecast"),
            TableCell(units.ratio(row.ratio)),
            TableCell("inside") if row.inside else TableCell(outside, mark="outside"),
        )
        told.append(Row(words.name(row.strategy), cells))
    columns = (
        Column("measured"),
        Column("", basis="predicted"),
        Column("predicted / measured"),
        Column("measured lies in the range", figures=False),
    )
    times = f"{words.count(len(told), 'measured time')} {'lies' if len(told) == 1 else 'lie'}"
    knew = (
        f"{found.inside} of {times} in the predicted range. The model knew the catalogue's figures for "
        f"{words.name(found.device)} and what was traced, none of these times."
    )
    figures = Table("compared", "strategy", columns, tuple(told), label=_BESIDE, forms="html")
    fold = Fold("Strategy by strategy", (figures,), kind="folded")
    return Heading(_BESIDE), Prose(knew, forms="html"), fold


def fastest_first(profile: Profile) -> Profile:
    """The profile with its measured rows by their median; the other rows follow as they were."""
    measured = sorted(profile.measured().values(), key=lambda row: row.median_seconds)
    others = (row for row in profile.results if not isinstance(row, Measured))
    return profile.model_copy(update={"results": (*measured, *others)})
