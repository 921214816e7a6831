"""A comparison as a page: gates, what differs, each device's ratios."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from advisor import units
from advisor.profiles.schema import Advice, Profile
from advisor.report import words
from advisor.report.axes import RatioScale, ratio_axis
from advisor.report.blocks import (
    Banners,
    Block,
    Column,
    Fact,
    Facts,
    Item,
    Items,
    Prose,
    Row,
    Table,
    TableCell,
    Verdict,
    Verdicts,
)
from advisor.report.page import Page, Section, filled, lead
from advisor.report.tables import merged
from advisor.verdicts.comparing import Compared, ComparedDevice, Comparison, OneSided, Ruling
from advisor.verdicts.comparing.conditions import Condition
from advisor.verdicts.comparing.recommended import Recommended
from advisor.version import __version__

_PREDICTED = (
    "Neither profile was measured on a GPU. Every figure on this page is computed by a model and comes with "
    "its range."
)
_LIMIT = 500
_FEW = 3
"""So many strategies are named in a headline; more are counted, and the table has them."""
PREDICTED_BOTH = "Predicted, not measured. Profile both on the device to confirm."
MORE_ROUNDS = "Profile both again with --rounds 10, on a machine that does nothing else."


def comparison_page(
    found: Comparison, rulings: Sequence[Ruling] = (), files: tuple[str, str] = ("", "")
) -> Page:
    """Everything a comparison says. `files` are what the two profiles are called."""
    workload = words.name(found.head.workload.name)
    sides = {"BASE": _side(files[0], found.base), "HEAD": _side(files[1], found.head)}
    devices = [(_name(each, found), each) for each in found.devices]
    opening = _opening(found, sides)
    return Page(
        kind="compare",
        brand="comparison",
        title=f"{workload}: HEAD against BASE",
        name=f"{workload}, HEAD against BASE",
        where="" if found.predicted else f"on {_where(found)}",
        basis="predicted" if found.predicted else "measured",
        meta=tuple(f"{label} {side}" for label, side in sides.items()),
        sections=(
            *(_gates(rulings, opening) for _ in (1,) if rulings),
            _lead(found, devices, () if rulings else opening),
            _comparable(found, sides),
            *(_device(device, name, i, found) for i, (name, device) in enumerate(devices, 1)),
            _advice(found),
        ),
        tool=f"advisor {__version__}",
    )


def _side(file: str, profile: Profile) -> str:
    tool = f"advisor {words.name(profile.tool.version)}"
    return ", ".join(filter(None, (words.name(file) if file else "", words.created(profile.created), tool)))


def _opening(found: Comparison, sides: Mapping[str, str]) -> tuple[Block, ...]:
    """Before anything else: that nothing was measured, and for a terminal what the two profiles are."""
    told = tuple(Fact(label, side) for label, side in sides.items())
    banner = Banners("predicted", (_PREDICTED,) * found.predicted, "predicted", forms="html")
    return banner, Facts(told, forms="txt")


def _gates(rulings: Sequence[Ruling], opening: tuple[Block, ...]) -> Section:
    items = tuple(
        Item((words.name(r.gate.text),), r.status, "", points=tuple(words.line(t, _LIMIT) for t in r.reasons))
        for r in rulings
    )
    return Section("gates", "Gates", filled(*opening, Items(items, label="Gate", most=4)), nav="Gates")


def _lead(
    found: Comparison, devices: Sequence[tuple[str, ComparedDevice]], opening: tuple[Block, ...]
) -> Section:
    told = tuple(_verdict(device, name, units.percent(found.confidence)) for name, device in devices)
    apart = tuple(map(_clean, (c for c in found.conditions if c.status == "differs")))
    return lead(
        *opening,
        Verdicts(told, named=len(told) > 1),
        Prose(_statement(apart), label="Comparable", forms="md"),
    )


def _comparable(found: Comparison, sides: Mapping[str, str]) -> Section:
    """What differs around the two, so that a reader knows what the ratios show the effect of."""
    apart = tuple(map(_clean, (c for c in found.conditions if c.status == "differs")))
    around = {"condition": "around the workload"}
    rows = (Row(c.what, (TableCell(c.base), TableCell(c.head)), note=around.get(c.kind, "")) for c in apart)
    columns = Column("BASE", figures=False), Column("HEAD", figures=False)
    parts = filled(
        Facts(tuple(Fact(label, side) for label, side in sides.items()), forms="md"),
        Prose(_statement(apart), kind="", forms="html txt"),
        Table(
            "conditions", "differs", columns, tuple(rows), label="What differs", codes=False, forms="html md"
        ),
        Facts(tuple(Fact(c.what, f"{c.base}; now {c.head}") for c in apart), forms="txt"),
        Prose(_same(found)),
        Banners("note", tuple(words.line(note, _LIMIT) for note in (*found.notes, *_unmatched(found)))),
    )
    return Section("comparable", "Comparable?", parts, nav="Comparable?", folded=True)


def _same(found: Comparison) -> str:
    """What is the same, and what is not known of both."""
    told = []
    for status, said in (("same", "The same"), ("not known", "Not known of both")):
        alike = words.listing((c.what for c in found.conditions if c.status == status), limit=20)
        told += [f"{said}: {alike}."] if alike else []
    return " ".join(told)


def _device(device: ComparedDevice, name: str, number: int, found: Comparison) -> Section:
    blocks = filled(
        _table(device, name, number, found) if device.rows else None,
        Items(merged(map(_gap, device.one_sided)), "Figures on one side alone"),
        Facts(_memory(device), forms="txt"),
    )
    return Section(f"device-{number}", name, blocks, nav=name, badge=device.basis)


def _table(device: ComparedDevice, name: str, number: int, found: Comparison) -> Table:
    predicted, axis = (
        device.basis == "predicted",
        ratio_axis([(r.ratio.low, r.ratio.high) for r in device.rows]),
    )
    interval = "range" if predicted else f"{units.percent(found.confidence)} interval"
    word, unit = "predicted " * predicted, "run" if found.head.script else "frame"
    return Table(
        "comparison",
        "strategy",
        (
            Column(f"{word}BASE", brief="BASE"),
            Column(f"{word}HEAD", brief="HEAD"),
            Column("HEAD / BASE", notes=interval, brief="ratio"),
            Column(f"{' to '.join(axis.ends)}", figures=False, forms="html"),
            Column("verdict", figures=False),
            Column("memory", forms="html md"),
        ),
        tuple(_row(row, device.recommended, axis) for row in device.rows),
        caption=f"{'Predicted time' if predicted else 'Time'} per {unit}; the ratio is HEAD's over BASE's, "
        f"beneath it its {interval}. The strip runs from {' to '.join(axis.ends)}, the shaded part counts "
        "as the same.",
        title=f"Predicted time per frame on {name}:" * predicted,
        identifier=f"device-{number}",
        predicted=predicted,
    )


def _memory(device: ComparedDevice) -> tuple[Fact, ...]:
    """The terminal has no column for it."""
    changed = (row for row in device.rows if row.base_bytes != row.head_bytes)
    return tuple(Fact(words.name(row.strategy), f"memory {_bytes(row)}") for row in changed)


def _advice(found: Comparison) -> Section:
    """What one of the two alone advises."""
    told = (
        ("New in HEAD", "New advice", found.new_advice),
        ("Gone since BASE", "Advice gone", found.gone_advice),
    )
    blocks: list[Block] = []
    for title, label, advice in told:
        blocks.append(Items(tuple(_advised(a, detail=True) for a in advice), title, forms="html"))
        blocks.append(Items(tuple(_advised(a, detail=False) for a in advice), label=label, forms="md txt"))
    if not found.new_advice and not found.gone_advice:
        blocks.append(Prose("The rules advise the same in both.", forms="html"))
    return Section("advice", "Advice", filled(*blocks), nav="Advice")


def _advised(told: Advice, *, detail: bool) -> Item:
    text = f"{words.line(told.title, 200)} on {words.name(told.device)}"
    return Item((words.name(told.rule),), "", f"{text}. {words.line(told.detail)}" if detail else text)


def _name(device: ComparedDevice, found: Comparison) -> str:
    return words.name(device.device.name) if device.basis == "predicted" else _where(found)


def _where(found: Comparison) -> str:
    """The measured device; both where HEAD's is another one."""
    before, now = words.name(found.base.device.name), words.name(found.head.device.name)
    return now if now == before else f"{now} (BASE: {before})"


def _clean(told: Condition) -> Condition:
    return Condition(
        words.name(told.what), told.status, words.line(told.base, 120), words.line(told.head, 120), told.kind
    )


def _statement(apart: Sequence[Condition]) -> str:
    """What the ratios show the effect of."""
    subjects = words.listing(f"the {c.what}" for c in apart if c.kind == "subject")
    around = words.listing((c.what for c in apart if c.kind == "condition"), limit=12)
    if subjects and around:
        return f"The ratios show the effect of {subjects}, and of what differs around it: {around}."
    if subjects:
        return f"The ratios show the effect of what differs: {subjects}."
    if around:
        return f"The workload is the same. The ratios show the effect of what differs around it: {around}."
    return "Nothing that was recorded differs, so the ratios show how well these figures repeat."


def _unmatched(found: Comparison) -> Iterator[str]:
    if found.unmatched_devices:
        names = words.listing(map(words.name, found.unmatched_devices))
        yield f"Predicted in one of the two alone: {names}."


def _verdict(device: ComparedDevice, name: str, confidence: str) -> Verdict:
    outcomes = {row.outcome for row in device.rows}
    sure = "slower" not in outcomes and "cannot tell" not in outcomes
    predicted = device.basis == "predicted"
    return Verdict(
        basis=device.basis,
        tone="clear" if sure and device.rows else "inconclusive" if device.rows else "none",
        device=name,
        headline=f"{'Predicted: ' * predicted}{_headline(device.rows)}",
        certainty="" if predicted else f"by {confidence} intervals of the ratio of medians",
        reason=_recommended(device),
        next_step=_next_step(device),
    )


def _headline(rows: Sequence[Compared]) -> str:
    """The slower ones first; names where there are few."""
    if not rows:
        return "no strategy has figures in both"
    told = []
    for outcome, verb in (("slower", "slower"), ("faster", "faster"), ("same", "the same"), (None, "")):
        names = [words.code(row.strategy) for row in rows if row.outcome == (outcome or "cannot tell")]
        if names and outcome:
            few = words.listing(names) if len(names) <= _FEW else f"{len(names)} strategies"
            told.append(f"{few} {verb}")
        elif names:
            every = len(names) == len(rows)
            told.append(
                "no strategy can be told faster or slower" if every else f"{len(names)} cannot be told"
            )
    joined = ", ".join(told)
    return joined[:1].upper() + joined[1:]


def _recommended(device: ComparedDevice) -> str:
    """What both recommend, and how the one that BASE recommends does now."""
    told = device.recommended
    base, head = (words.code(name) if name else "no single strategy" for name in (told.base, told.head))
    if told.change == "same":
        sentence = f"Both recommend {base}"
    else:
        sure = "The recommendation changed" if told.change == "changed" else "It cannot be told whether the "
        sure += "" if told.change == "changed" else "recommendation changed"
        sentence = f"{sure}: {base} in BASE, {head} in HEAD"
    row = next((row for row in device.rows if row.strategy == told.base), None)
    if row is None:
        return f"{sentence}."
    between = words.ratio_between(row.ratio.low, row.ratio.high)
    return f"{sentence}. {base} takes {units.ratio(row.ratio.value)} the time of BASE ({between})."


def _next_step(device: ComparedDevice) -> str:
    if all(row.outcome != "cannot tell" for row in device.rows):
        return ""
    return PREDICTED_BOTH if device.basis == "predicted" else MORE_ROUNDS


def _row(row: Compared, told: Recommended, axis: RatioScale) -> Row:
    tags = [side for side, name in (("BASE", told.base), ("HEAD", told.head)) if name == row.strategy]
    outcome = row.outcome.replace(" ", "-")
    ratio = TableCell(units.ratio(row.ratio.value), words.ratio_between(row.ratio.low, row.ratio.high))
    drawn = axis.strip(row.ratio.value, row.ratio.low, row.ratio.high)
    return Row(
        words.name(row.strategy),
        (
            TableCell(units.seconds(row.base_seconds)),
            TableCell(units.seconds(row.head_seconds)),
            ratio,
            TableCell("", mark=outcome, strip=drawn),
            TableCell(row.outcome, mark=outcome, badge=f"outcome {outcome}"),
            TableCell(_bytes(row), mark="changed" if row.base_bytes != row.head_bytes else ""),
        ),
        tag=f"recommended in {' and '.join(tags)}" if tags else "",
    )


def _bytes(row: Compared) -> str:
    before, now = ("not seen" if b is None else units.size(b) for b in (row.base_bytes, row.head_bytes))
    return now if row.base_bytes == row.head_bytes else f"{before} to {now}"


def _gap(gap: OneSided) -> Item:
    status = f"{gap.status} in {gap.missing_in.upper()}"
    return Item((words.name(gap.strategy),), status, words.line(gap.reason, _LIMIT))
