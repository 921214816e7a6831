"""A comparison as a page: gates, what differs, each device's ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import starmap

from advisor import units
from advisor.profiles.schema import Profile
from advisor.profiles.sweeps import Value
from advisor.report import blocks, words
from advisor.report.axes import RatioScale, ratio_axis
from advisor.report.page import Page, Section, filled, lead, panels
from advisor.report.records import compared
from advisor.report.tables import merged
from advisor.verdicts.comparing.comparisons import ComparedDevice, Comparison, Recommended
from advisor.verdicts.comparing.conditions import Condition
from advisor.verdicts.comparing.gates import Ruling
from advisor.verdicts.comparing.promised import PromisedSpeed, promised_speed
from advisor.verdicts.comparing.rows import Cause, Compared, Drift, OneSided

_LIMIT = 500
_CHANGES, _SHORT = 4, 60
"""Differences in one line; with their values if these have at most so many characters."""
_FEW = 3
"""Strategies named in a headline; more are counted, and the table has them."""
_PREDICTED_BOTH = "Predicted, not measured. Profile both on the device to confirm."
_OUTCOMES = ("slower", "faster", "cannot tell", "same")
"""Short forms have room for the first of them."""
_STATUSES = ("failed", "inconclusive", "not applicable", "passed")
"""The order in which gates are told: short forms have room for the first of them."""
_CAUSES: dict[Cause, str] = {
    "machine": "the machine, since all parts of a frame changed alike",
    "host": "in the host stages ({by}), caused by the CPU or code that they share",
    "device": "in the kernels ({by}), caused by the GPU's clocks, the driver or code that they share",
    "copies": "in the copies ({by}), caused by the link or by what is copied",
    "unknown": "the machine or the code; the parts of a frame do not show which",
}
_MORE_ROUNDS = "Profile both again with --rounds 10, on an idle machine."


def comparison_page(
    found: Comparison, rulings: Sequence[Ruling] = (), files: tuple[str, str] = ("", "")
) -> Page:
    """Everything a comparison says. `files` are what the two profiles are called."""
    workload = words.name(found.head.workload.name)
    before, where = words.name(found.base.device.name), words.name(found.head.device.name)
    where += f" (BASE: {before})" * (where != before)
    sides = {"BASE": side_of(files[0], found.base), "HEAD": side_of(files[1], found.head)}
    names = [words.name(d.device.name) if d.basis == "predicted" else where for d in found.devices]
    devices = list(zip(names, found.devices, strict=True))
    apart = [
        replace(c, what=words.name(c.what), base=words.line(c.base, 120), head=words.line(c.head, 120))
        for c in found.conditions
        if c.status == "differs"
    ]
    told, changed = tuple(starmap(blocks.Fact, sides.items())), blocks.Fact("Changed", _changed(found, apart))
    opening = blocks.Facts((*told, *[changed] * bool(changed.value)), forms="txt")
    verdicts = tuple(_verdict(device, name, found.confidence) for name, device in devices)
    judged = [gates(rulings, opening)] if rulings else []
    held = [figures(device, name, i, found) for i, (name, device) in enumerate(devices, 1)]
    return Page(
        kind="compare",
        brand="comparison",
        name=f"{workload}, HEAD vs. BASE",
        where="" if found.predicted else f"on {where}",
        basis="predicted" if found.predicted else "measured",
        meta=tuple(f"{label} {side}" for label, side in sides.items()),
        sections=(
            *(replace(section, forms="txt") for section in judged),
            lead(
                None if rulings else opening,
                blocks.Prose(ruled(rulings), "Gates", ("Why", "#gates"), "next together", forms="html")
                if rulings
                else None,
                blocks.Prose(changed.value, changed.label, kind="next together", forms="html md"),
                blocks.Verdicts(verdicts, named=len(verdicts) > 1, forms="txt"),
                blocks.Verdicts(
                    tuple(replace(verdict, remark="") for verdict in verdicts),
                    named=len(verdicts) > 1,
                    forms="md",
                ),
                panels(verdicts, held),
                blocks.Prose(_promise(promised_speed(found)), kind=""),
            ),
            *(replace(section, forms="html md") for section in judged),
            changed_rows(devices, found),
            _comparable(found, apart, told),
            *(
                Section(f"device-{i}", name, parts, badge=device.basis, brief=True, forms="txt")
                for i, ((name, device), parts) in enumerate(zip(devices, held, strict=True), 1)
            ),
            Section(
                "all",
                "All strategies",
                tuple(block for parts in held for block in parts),
                folded=True,
                forms="md",
            ),
            advice(found),
        ),
        records=compared(found),
    )


def _promise(kept: PromisedSpeed | None) -> str:
    if kept is None:
        return ""
    changed = f"From {words.code(kept.baseline)} in BASE to {words.code(kept.strategy)} in HEAD"
    return f"{changed}: promised {units.times(kept.promised)}, got {units.times(kept.got)}."


def ruled(rulings: Sequence[Ruling]) -> str:
    """Which gates passed and which failed, in a sentence."""
    by_status = words.grouped(rulings, lambda ruling: ruling.status)
    told = (f"{words.listing(words.code(r.gate.text) for r in same)} {s}" for s, same in by_status.items())
    return f"{'; '.join(told)}."


def side_of(file: str, profile: Profile) -> str:
    named = words.name(file) if file else "", words.created(profile.created)
    return ", ".join(filter(None, (*named, f"advisor {words.name(profile.tool.version)}")))


def gates(rulings: Sequence[Ruling], opening: blocks.Facts | None = None) -> Section:
    items = []
    for ruling in sorted(rulings, key=lambda ruling: _STATUSES.index(ruling.status)):
        points = tuple(words.line(text, _LIMIT) for text in ruling.reasons)
        items.append(blocks.Item((words.name(ruling.gate.text),), ruling.status, "", points=points))
    told = filled(opening, blocks.Items(tuple(items), label="Gate", most=4))
    return Section("gates", "Gates", told, nav="Gates", brief=True)


def _comparable(found: Comparison, apart: Sequence[Condition], sides: tuple[blocks.Fact, ...]) -> Section:
    """What differs around the two, so that a reader knows what the ratios show the effect of."""
    around = {"condition": "run condition"}
    rows = (
        blocks.Row(c.what, (blocks.TableCell(c.base), blocks.TableCell(c.head)), note=around.get(c.kind, ""))
        for c in apart
    )
    columns = blocks.Column("BASE", figures=False), blocks.Column("HEAD", figures=False)
    notes = [words.line(note, _LIMIT) for note in found.notes]
    if found.unmatched_devices:
        names = words.listing(map(words.name, found.unmatched_devices))
        notes.append(f"Predicted in only one of the profiles: {names}.")
    parts = filled(
        blocks.Facts(sides, forms="md"),
        blocks.Prose(_statement(apart), kind=""),
        blocks.Table(
            "conditions", "differs", columns, tuple(rows), label="What differs", codes=False, forms="html md"
        ),
        blocks.Facts(tuple(blocks.Fact(c.what, f"{c.base}; now {c.head}") for c in apart), forms="txt"),
        blocks.Prose(_same(found)),
        blocks.Banners("note", tuple(notes)),
    )
    return Section("comparable", "Comparable?", parts, nav="Comparable?", folded=True)


def _same(found: Comparison) -> str:
    """What is the same, and what is not known of both."""
    told = []
    for status, said in (("same", "The same"), ("not known", "Not known for both")):
        alike = words.listing((c.what for c in found.conditions if c.status == status), limit=20)
        told += [f"{said}: {alike}."] if alike else []
    return " ".join(told)


def _changed(found: Comparison, apart: Sequence[Condition]) -> str:
    """What differs, with both values where these are short; of the parameters only those that differ."""
    before, now = (side.workload.parameters for side in (found.base, found.head))
    told = [
        f"{words.name(name, 40)} from {_value(before, name)} to {_value(now, name)}"
        for name in dict.fromkeys((*before, *now))
        if before.get(name) != now.get(name)
    ]
    for one in (c for c in apart if c.what != "parameters"):
        short = one.what != "workload's code" and len(one.base + one.head) <= _SHORT
        told.append(f"{one.what} from {one.base} to {one.head}" if short else one.what)
    return words.listing(told, limit=_CHANGES)


def _value(parameters: Mapping[str, Value], name: str) -> str:
    return words.value(parameters[name]) if name in parameters else "none"


def _statement(apart: Sequence[Condition]) -> str:
    """What the ratios show the effect of."""
    subjects = words.listing(f"the {c.what}" for c in apart if c.kind == "subject")
    around = words.listing((c.what for c in apart if c.kind == "condition"), limit=12)
    if subjects and around:
        return f"The ratios show the effect of {subjects} and of different conditions: {around}."
    if subjects:
        return f"The ratios show the effect of {subjects}."
    if around:
        return f"The workload is the same. The ratios show the effect of different conditions: {around}."
    return "No difference was recorded: the ratios show how repeatable the figures are."


def figures(device: ComparedDevice, name: str, number: int, found: Comparison) -> tuple[blocks.Block, ...]:
    """Its table, figures on one side alone, and for a terminal, which has no such column, memory."""
    gaps = map(_gap, device.one_sided)
    changed = words.grouped((row for row in device.rows if row.base_bytes != row.head_bytes), _bytes)
    memory = "; ".join(
        f"{told}: {words.listing(words.name(row.strategy) for row in same)}" for told, same in changed.items()
    )
    return filled(
        _table(device, name, number, found) if device.rows else None,
        blocks.Items(merged(gaps), "Figures in only one profile"),
        blocks.Facts((blocks.Fact("memory", memory),) if memory else (), forms="txt"),
    )


def changed_rows(devices: Sequence[tuple[str, ComparedDevice]], found: Comparison) -> Section:
    """What a comment on a pull request shows unfolded: strategies that are slower or faster, by device."""
    by_basis = words.grouped(devices, lambda pair: pair[1].basis)
    tables = (_changed_table(same, found, several=len(devices) > 1) for same in by_basis.values())
    broken = (
        _gap(gap)
        for _, device in devices
        for gap in device.one_sided
        if gap.missing_in == "head" and gap.status == "failed"
    )
    return Section("changed", "Changed", filled(*tables, blocks.Items(merged(broken))), forms="md")


def _changed_table(
    devices: Sequence[tuple[str, ComparedDevice]], found: Comparison, *, several: bool
) -> blocks.Table:
    tables = [(name, device, _table(device, name, 0, found)) for name, device in devices]
    rows = tuple(
        replace(row, cells=(blocks.TableCell(name), *row.cells))
        for name, device, table in tables
        for row, compared in zip(table.rows, device.rows, strict=True)
        if compared.outcome in ("slower", "faster")
    )
    one = tables[0][2]
    where = blocks.Column("device", figures=False, forms="md" if several else "html")
    return replace(one, columns=(where, *one.columns), rows=rows, title="")


def _gap(gap: OneSided) -> blocks.Item:
    told = f"{gap.status} in {gap.missing_in.upper()}"
    return blocks.Item((words.name(gap.strategy),), told, words.line(gap.reason, _LIMIT))


def _table(device: ComparedDevice, name: str, number: int, found: Comparison) -> blocks.Table:
    predicted = device.basis == "predicted"
    word, interval = "", f"{found.confidence * 100:g} % interval"
    if predicted:
        word, interval = "predicted ", "range"
    axis = ratio_axis([(row.ratio.low, row.ratio.high) for row in device.rows])
    ends = " to ".join(axis.ends)
    return blocks.Table(
        "comparison",
        "strategy",
        (
            blocks.Column(ends, figures=False, forms="html"),
            blocks.Column(f"{word}BASE", brief="BASE"),
            blocks.Column(f"{word}HEAD", brief="HEAD"),
            blocks.Column("HEAD / BASE", notes=interval, brief="ratio"),
            blocks.Column("verdict", figures=False),
            blocks.Column("memory", forms="html md"),
        ),
        tuple(_row(row, device.recommended, axis) for row in device.rows),
        caption=f"{'Predicted time' if predicted else 'Time'} per frame. The ratio is HEAD / BASE, with "
        f"its {interval} below. The strip spans {ends}; the shaded part counts as the same.",
        title=f"Predicted time per frame on {name}:" * predicted,
        identifier=f"device-{number}",
        predicted=predicted,
    )


def _row(row: Compared, told: Recommended, axis: RatioScale) -> blocks.Row:
    tags = [side for side, name in (("BASE", told.base), ("HEAD", told.head)) if name == row.strategy]
    outcome, ratio = row.outcome.replace(" ", "-"), row.ratio
    strip, figure = blocks.ratio_cells(axis, ratio.value, ratio.low, ratio.high, outcome)
    return blocks.Row(
        words.name(row.strategy),
        (
            strip,
            blocks.TableCell(units.seconds(row.base_seconds)),
            blocks.TableCell(units.seconds(row.head_seconds)),
            figure,
            blocks.TableCell(
                row.outcome.replace("cannot tell", "undecided"), mark=outcome, badge=f"outcome {outcome}"
            ),
            blocks.TableCell(_bytes(row), mark="changed" if row.base_bytes != row.head_bytes else ""),
        ),
        tag=f"recommended in {' and '.join(tags)}" if tags else "",
        rank=_OUTCOMES.index(row.outcome),
    )


def _bytes(row: Compared) -> str:
    before, now = ("not recorded" if b is None else units.size(b) for b in (row.base_bytes, row.head_bytes))
    return now if row.base_bytes == row.head_bytes else f"{before} to {now}"


def advice(found: Comparison) -> Section:
    """What one of the two alone advises."""
    parts: list[blocks.Block] = []
    for title, label, fired in (
        ("New in HEAD", "New advice", found.new_advice),
        ("Gone since BASE", "Advice gone", found.gone_advice),
    ):
        told = [(a, f"{words.line(a.title, 200)} on {words.name(a.device)}") for a in fired]
        whole = (
            blocks.Item((words.name(a.rule),), "", f"{said}. {words.line(a.detail)}") for a, said in told
        )
        brief = (blocks.Item((words.name(a.rule),), "", said) for a, said in told)
        parts.append(blocks.Items(tuple(whole), title, forms="html"))
        parts.append(blocks.Items(tuple(brief), label=label, forms="md txt"))
    same = "No advice changed beyond noise." * (not found.new_advice and not found.gone_advice)
    changes = filled(*parts, blocks.Prose(same, forms="html"))
    return Section("advice", "Advice", changes, nav="Advice", folded=True)


def _verdict(device: ComparedDevice, name: str, confidence: float) -> blocks.Verdict:
    outcomes, predicted = {row.outcome for row in device.rows}, device.basis == "predicted"
    told = not outcomes & {"slower", "cannot tell"}
    together, step = _together(device.drift), _PREDICTED_BOTH if predicted else _MORE_ROUNDS
    interval = f"{units.percent(confidence)} intervals of the ratio of times" * (not predicted)
    return blocks.Verdict(
        basis=device.basis,
        tone="none" if not outcomes else "clear" if told else "inconclusive",
        device=name,
        headline=f"{'Predicted: ' * predicted}{_headline(device.rows)}",
        reason=" ".join(filter(None, (together, recommended(device)))),
        next_step=step if "cannot tell" in outcomes else "",
        remark=interval,
    )


def _together(found: Drift | None) -> str:
    """What moved all strategies, where in a frame it is, and which of them moved beyond that."""
    if found is None:
        return ""
    told = []
    if found.together:
        count = found.strategies - len(found.alone)
        who = f"{'The other' if found.alone else 'All'} {count} strategies of the final"
        told.append(f"{who} are {words.slower(found.common)}: {_cause(found)}.")
    for name, ratio in found.alone.items():
        told.append(f"{words.code(name)} changed alone: {words.slower(ratio)} relative to the others.")
    return " ".join(told)


def _cause(found: Drift) -> str:
    """What the parts of a frame say of a common factor, and what they cannot exclude."""
    by = f"{'+' if found.seconds > 0 else '-'}{units.seconds(abs(found.seconds))}"
    if found.cause == "stage":
        return f"stage {words.code(found.stage)} ({by}), which every strategy runs: likely its code"
    return _CAUSES[found.cause].format(by=by)


def _headline(rows: Sequence[Compared]) -> str:
    if not rows:
        return "no strategy has figures in both"
    by_outcome = words.grouped(rows, lambda row: str(row.outcome))
    told = []
    for outcome, verb in (("slower", "slower"), ("faster", "faster"), ("same", "the same")):
        names = [words.code(row.strategy) for row in by_outcome.get(outcome, ())]
        if names:
            few = words.listing(names) if len(names) <= _FEW else f"{len(names)} strategies"
            told.append(f"{few} {verb}")
    unclear = len(by_outcome.get("cannot tell", ()))
    if unclear:
        every = unclear == len(rows)
        told.append("no strategy is clearly faster or slower" if every else f"{unclear} undecided")
    joined = ", ".join(told)
    return joined[:1].upper() + joined[1:]


def recommended(device: ComparedDevice) -> str:
    """What both recommend, and how the one that BASE recommends does now."""
    told = device.recommended
    base, head = (words.code(name) if name else "no single strategy" for name in (told.base, told.head))
    sentence = f"The recommendation changed: {base} in BASE, {head} in HEAD"
    if told.change == "same":
        sentence = f"Both recommend {base}"
    elif told.change != "changed":
        sentence = f"It is undecided whether the recommendation changed: {base} in BASE, {head} in HEAD"
    row = next((row for row in device.rows if row.strategy == told.base), None)
    if row is None:
        return f"{sentence}."
    between = words.ratio_between(row.ratio.low, row.ratio.high)
    return f"{sentence}. {base} takes {units.ratio(row.ratio.value)} its time in BASE ({between})."
