"""Two reports of one program side by side: what a frame is made of, and which advice came and went."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import quantiles

from advisor import units
from advisor.profiles.programs import GpuTrace, ProgramTrace
from advisor.report import blocks, words
from advisor.report.blocks import Column, Fact, Row, Table, TableCell
from advisor.report.page import Page, Section, filled
from advisor.report.records import flows_of

_PARTS: tuple[tuple[str, Callable[[GpuTrace], float | None]], ...] = (
    ("frame", lambda gpu: gpu.seconds),
    ("kernels", lambda gpu: gpu.kernel_seconds),
    ("copies", lambda gpu: gpu.copy_seconds),
    ("of these, beside kernels", lambda gpu: gpu.hidden_seconds),
    ("migrations", lambda gpu: gpu.managed.seconds if gpu.managed else None),
    ("idle", lambda gpu: gpu.idle_seconds),
    ("memory can change at most", lambda gpu: gpu.ceiling.seconds if gpu.ceiling else None),
)
Ruled = tuple[str, str]
"""A gate's status and the reason."""


def compared_page(
    base: ProgramTrace, head: ProgramTrace, names: tuple[str, str], rulings: Sequence[str]
) -> Page:
    """GPUs are compared by their labels; figures are per frame where both have frames."""
    pairs = [(one, other) for one in base.gpus for other in head.gpus if one.label == other.label]
    alone = {gpu.label for gpu in (*base.gpus, *head.gpus)} - {one.label for one, _ in pairs}
    notes = tuple(f"{label} is in only one of the reports." for label in sorted(alone))
    fired = [[(a.rule, a.device) for a in each.advice if a.outcome == "advice"] for each in (base, head)]
    changes = [Fact("gone", f"{rule} ({where})") for rule, where in fired[0] if (rule, where) not in fired[1]]
    changes += [Fact("new", f"{rule} ({where})") for rule, where in fired[1] if (rule, where) not in fired[0]]
    lead = filled(
        blocks.Banners("note", notes),
        *(_table(*pair) for pair in pairs),
        blocks.Facts(tuple(changes), "Advice:"),
        blocks.Bullets(tuple(rulings)),
        blocks.Prose("One run each: what differs between runs of the same program is not in these figures."),
    )
    title = f"{words.name(names[1])} compared with {words.name(names[0])}"
    records = (*flows_of(base.gpus, side="BASE"), *flows_of(head.gpus, side="HEAD"))
    sections = (Section("verdict", "Differences", lead, lead=True),)
    return Page("compare", "compare", title, sections, records=records)


def _table(base: GpuTrace, head: GpuTrace) -> Table:
    framed = bool(base.frames and head.frames)
    rows = tuple(Row(name, tuple(_cells(base, head, part, framed))) for name, part in _PARTS)
    return Table(
        kind="parts",
        names="per frame" if framed else "in all",
        columns=tuple(map(Column, ("BASE", "HEAD", "HEAD over BASE"))),
        rows=rows,
        caption=base.label,
        title=base.label,
        label=base.label,
        identifier=f"parts-{base.label}",
        codes=False,
    )


def _cells(
    base: GpuTrace, head: GpuTrace, part: Callable[[GpuTrace], float | None], framed: bool
) -> Iterator[TableCell]:
    values = [part(gpu) for gpu in (base, head)]
    each = [
        v if v is None or not framed else v / gpu.units for v, gpu in zip(values, (base, head), strict=True)
    ]
    for value in each:
        yield TableCell(blocks.NOTHING if value is None else units.seconds(value) if value else "0")
    yield TableCell(units.ratio(each[1] / each[0]) if each[0] and each[1] is not None else blocks.NOTHING)


def slower(limit: float, base: ProgramTrace, head: ProgramTrace) -> Iterator[Ruled]:
    """Whether frames take longer by more than the limit: failed where the middle halves of both say so."""
    for one in base.gpus:
        other = next((gpu for gpu in head.gpus if gpu.label == one.label), None)
        frames = [
            gpu.frames.steady for gpu in (one, other) if gpu and gpu.frames and len(gpu.frames.steady) > 1
        ]
        if len(frames) < 2:
            yield "inconclusive", f"{one.label} does not have frames in both reports"
            continue
        (low, middle, high), (head_low, head_middle, _) = (quantiles(each, n=4) for each in frames)
        told = f"{one.label}: a frame takes {units.ratio(head_middle / middle)} the time"
        if head_middle <= middle * (1 + limit):
            yield "passed", told
        elif head_low > high * (1 + limit):
            yield "failed", told
        else:
            yield "inconclusive", f"{told}, but frames differ by as much ({units.ratio(high / low)})"
