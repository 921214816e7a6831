"""A comparison as a page: gates, what differs, each device's ratios."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from advisor import units
from advisor.profiles.crossings import LineAdvice
from advisor.report import blocks, words
from advisor.report.blocks import row
from advisor.report.page import Page, Section, filled, lead, panels
from advisor.report.records import compared
from advisor.report.tables import merged
from advisor.verdicts.comparing.comparisons import ComparedDevice, Comparison
from advisor.verdicts.comparing.conditions import Condition, differing
from advisor.verdicts.comparing.gates import Ruling
from advisor.verdicts.comparing.lines import LineComparison
from advisor.verdicts.comparing.rows import Compared, Drift, OneSided
from advisor.verdicts.comparing.versions import PromisedSpeed, promised_speed

_LIMIT = 500
_CHANGES, _SHORT = 4, 60
"""Differences in one line; with their values if these have at most so many characters."""
_FEW = 3
"""Strategies named in a headline; more are counted, and the table has them."""
_PREDICTED_BOTH = "Profile both on the device to confirm."
_OUTCOMES = ("slower", "faster", "cannot tell", "same")
"""Short forms have room for the first of them."""
_STATUSES = ("failed", "inconclusive", "not applicable", "passed")
"""The order in which gates are listed: short forms have room for the first of them."""
_SHARED = "the machine, or code that every strategy runs"
_UNCHANGED = "No difference was recorded: the figures show how repeatable they are."
_MORE_ROUNDS = "Profile both again with --rounds 10, on an idle machine."


def comparison_page(
    comparison: Comparison, rulings: Sequence[Ruling] = (), files: tuple[str, str] = ("", "")
) -> Page:
    base, head = comparison.base, comparison.head
    before, where = words.name(base.device.name), words.name(head.device.name)
    where += f" (BASE: {before})" * (where != before)
    devices = [
        (words.name(d.device.name) if d.basis == "predicted" else where, d) for d in comparison.devices
    ]
    sides = sides_of(comparison, files)
    title = f"{words.name(head.workload.name)}, HEAD vs. BASE"
    sections = tuple(_sections(comparison, devices, rulings, sides))
    meta = tuple(f"{side.label} {side.value}" for side in sides)
    records = compared(comparison, promised_speed(comparison))
    return Page(
        "compare",
        "comparison",
        title,
        sections,
        basis="predicted" if comparison.predicted else "measured",
        where="" if comparison.predicted else f"on {where}",
        meta=meta,
        records=records,
    )


def _sections(
    comparison: Comparison,
    devices: Sequence[tuple[str, ComparedDevice]],
    rulings: Sequence[Ruling],
    sides: tuple[blocks.Fact, ...],
) -> Iterator[Section]:
    differences = []
    for one in _apart(comparison.conditions):
        short = one.what != "workload's code" and len(one.base + one.head) <= _SHORT
        differences.append(f"{one.what} from {one.base} to {one.head}" if short else one.what)
    changed = blocks.Fact("Changed", words.listing(differences, limit=_CHANGES))
    opening = blocks.Facts((*sides, *[changed] * bool(changed.value)), forms="txt")
    verdicts = tuple(_verdict(device, name, comparison.confidence) for name, device in devices)
    tables = [figures(device, name, comparison) for name, device in devices]
    first = (
        blocks.Prose(changed.value, changed.label, kind="next together", forms="html md"),
        *panels(verdicts, tables),
        blocks.Prose(promise(promised_speed(comparison)), kind=""),
    )
    yield from gated(rulings, first, opening)
    yield changed_rows(devices, comparison)
    notes = [words.line(note, _LIMIT) for note in comparison.notes]
    if comparison.unmatched_devices:
        names = words.listing(map(words.name, comparison.unmatched_devices))
        notes.append(f"Predicted in only one of the profiles: {names}.")
    yield comparable(comparison.conditions, sides, notes)
    for i, ((name, device), parts) in enumerate(zip(devices, tables, strict=True), 1):
        yield Section(f"device-{i}", name, parts, badge=device.basis, brief=True, forms="txt")
    yield Section("all", "All strategies", sum(tables, ()), folded=True, forms="md")
    yield advice(comparison)


def gated(
    rulings: Sequence[Ruling], first: Sequence[blocks.Block | None], opening: blocks.Facts | None = None
) -> Iterator[Section]:
    """The lead and the gates: on a terminal the gates, with the `opening`, come first; elsewhere last."""
    if not rulings:
        yield lead(opening, *first)
        return
    items = []
    alike = words.grouped(rulings, lambda ruling: (ruling.status, ruling.reasons))
    for (status, reasons), same in sorted(alike.items(), key=lambda pair: _STATUSES.index(pair[0][0])):
        points = tuple(words.line(text, _LIMIT) for text in reasons)
        items.append(
            blocks.Item(tuple(words.name(each.gate.text) for each in same), status, "", points=points)
        )
    by_status = words.grouped(rulings, lambda ruling: ruling.status)
    summaries = (
        f"{words.listing(words.code(r.gate.text) for r in same)} {s}" for s, same in by_status.items()
    )
    inside = filled(opening, blocks.Items(tuple(items), label="Gate", labels="Gates", most=4))
    gates = Section("gates", "Gates", inside, nav="Gates", brief=True, forms="txt")
    yield gates
    summary = blocks.Prose(f"{'; '.join(summaries)}.", "Gates", "next together", forms="html")
    yield lead(summary, *first)
    yield replace(gates, forms="html md")


def promise(speed: PromisedSpeed | None) -> str:
    if speed is None:
        return ""
    changed = f"From {words.code(speed.baseline)} in BASE to {words.code(speed.strategy)} in HEAD"
    return f"{changed}: promised {units.times(speed.promised)}, got {units.times(speed.got)}."


def sides_of(comparison: Comparison | LineComparison, files: tuple[str, str]) -> tuple[blocks.Fact, ...]:
    facts = []
    for side, file, profile in zip(("BASE", "HEAD"), files, (comparison.base, comparison.head), strict=True):
        origin = words.created(profile.created), f"advisor {words.name(profile.tool.version)}"
        facts.append(blocks.Fact(side, ", ".join(filter(None, (words.name(file) if file else "", *origin)))))
    return tuple(facts)


def _apart(conditions: Sequence[Condition]) -> list[Condition]:
    return [
        replace(c, what=words.name(c.what), base=words.line(c.base, 120), head=words.line(c.head, 120))
        for c in differing(conditions)
    ]


def comparable(
    conditions: Sequence[Condition], sides: tuple[blocks.Fact, ...], notes: Sequence[str] = ()
) -> Section:
    """Differences between the two profiles, whose effect the figures may show."""
    around, apart = {"condition": "run condition"}, _apart(conditions)
    rows = tuple(row(c.what, c.base, c.head, note=around.get(c.kind, "")) for c in apart)
    columns = blocks.Column("BASE", figures=False), blocks.Column("HEAD", figures=False)
    alike = []
    for status, label in (("same", "The same"), ("not known", "Not known for both")):
        same = words.listing((c.what for c in conditions if c.status == status), limit=20)
        alike += [f"{label}: {same}."] if same else []
    table = blocks.Table("conditions", "differs", columns, rows, label="What differs", codes=False)
    parts = filled(
        blocks.Facts(sides, forms="md"),
        blocks.Prose(_UNCHANGED * (not apart), kind=""),
        replace(table, forms="html md"),
        blocks.Facts(tuple(blocks.Fact(c.what, f"{c.base}; now {c.head}") for c in apart), forms="txt"),
        blocks.Prose(" ".join(alike)),
        blocks.Banners("note", tuple(notes)),
    )
    return Section("comparable", "Comparable?", parts, nav="Comparable?", folded=True, closed=True)


def figures(device: ComparedDevice, name: str, comparison: Comparison) -> tuple[blocks.Block, ...]:
    """A device's table, strategies in one profile alone, and changes of memory for a terminal."""
    changed = words.grouped((row for row in device.rows if row.base_bytes != row.head_bytes), _bytes)
    named = ((change, [words.name(row.strategy) for row in same]) for change, same in changed.items())
    memory = "; ".join(f"{change}: {words.listing(strategies)}" for change, strategies in named)
    return filled(
        _table(device, name, comparison) if device.rows else None,
        blocks.Items(merged(map(_gap, device.one_sided)), "Figures in only one profile"),
        blocks.Facts((blocks.Fact("memory", memory),) if memory else (), forms="txt"),
    )


def changed_rows(devices: Sequence[tuple[str, ComparedDevice]], comparison: Comparison) -> Section:
    """Unfolded in a comment on a pull request: strategies that are slower or faster, by device."""
    where = blocks.Column("device", figures=False, forms="md" if len(devices) > 1 else "html")
    tables_by_basis: list[blocks.Block] = []
    for same in words.grouped(devices, lambda pair: pair[1].basis).values():
        tables = [_table(device, name, comparison) for name, device in same]
        rows = tuple(
            replace(row, cells=(blocks.TableCell(name), *row.cells))
            for (name, device), table in zip(same, tables, strict=True)
            for row, compared in zip(table.rows, device.rows, strict=True)
            if compared.outcome in ("slower", "faster")
        )
        tables_by_basis.append(replace(tables[0], columns=(where, *tables[0].columns), rows=rows, title=""))
    one_sided = (gap for _, device in devices for gap in device.one_sided)
    broken = (_gap(gap) for gap in one_sided if (gap.missing_in, gap.status) == ("HEAD", "failed"))
    return Section("changed", "Changed", filled(*tables_by_basis, blocks.Items(merged(broken))), forms="md")


def _gap(gap: OneSided) -> blocks.Item:
    status = f"{gap.status} in {gap.missing_in}"
    return blocks.Item((words.name(gap.strategy),), status, words.line(gap.reason, _LIMIT))


def _table(device: ComparedDevice, name: str, comparison: Comparison) -> blocks.Table:
    predicted = device.basis == "predicted"
    word = "predicted " * predicted
    interval = "range" if predicted else f"{comparison.confidence * 100:g} % interval"
    columns = (
        blocks.Column(f"{word}BASE", brief="BASE"),
        blocks.Column(f"{word}HEAD", brief="HEAD"),
        blocks.Column("HEAD / BASE", notes=interval, brief="ratio"),
        blocks.Column("verdict", figures=False),
        blocks.Column("memory", forms="html md"),
    )
    caption = f"{'Predicted time' if predicted else 'Time'} per frame. The ratio is HEAD / BASE, with its "
    caption += f"{interval} below."
    recommended = (("BASE", device.recommended.base), ("HEAD", device.recommended.head))
    rows = []
    for each in device.rows:
        tags = [side for side, strategy in recommended if strategy == each.strategy]
        verdict, outcome = each.outcome.replace("cannot tell", "undecided"), each.outcome.replace(" ", "-")
        judged = blocks.TableCell(verdict, mark=outcome, badge=f"outcome {outcome}")
        memory = blocks.TableCell(_bytes(each), mark="changed" * (each.base_bytes != each.head_bytes))
        times = units.seconds(each.base_seconds), units.seconds(each.head_seconds)
        cells = row(words.name(each.strategy), *times, blocks.ratio_cell(each.ratio), judged, memory)
        tag = f"recommended in {' and '.join(tags)}" if tags else ""
        rows.append(replace(cells, tag=tag, rank=_OUTCOMES.index(each.outcome)))
    title = f"Predicted time per frame on {name}:" * predicted
    table = blocks.Table("comparison", "strategy", columns, tuple(rows), caption, title, predicted=predicted)
    return replace(table, label=f"Ratios on {name}")


def _bytes(row: Compared) -> str:
    before, now = ("not recorded" if b is None else units.size(b) for b in (row.base_bytes, row.head_bytes))
    return now if row.base_bytes == row.head_bytes else f"{before} to {now}"


def advice(comparison: Comparison | LineComparison) -> Section:
    parts: list[blocks.Block] = []
    for title, label, fired in (
        ("New in HEAD", "New advice", comparison.new_advice),
        ("Gone since BASE", "Advice gone", comparison.gone_advice),
    ):
        named = [
            (a.advice, f" on line {a.place.line}") if isinstance(a, LineAdvice) else (a, "") for a in fired
        ]
        titled = [(a, f"{words.line(a.title, 200)}{at or f' on {words.name(a.device)}'}") for a, at in named]
        brief = tuple(blocks.Item((words.name(a.rule),), "", text) for a, text in titled)
        whole = tuple(
            blocks.Item((words.name(a.rule),), "", f"{text}. {words.line(a.detail)}") for a, text in titled
        )
        parts += blocks.Items(whole, title, forms="html"), blocks.Items(brief, label=label, forms="md txt")
    same = "No advice changed beyond noise." * (not comparison.new_advice and not comparison.gone_advice)
    changes = filled(*parts, blocks.Prose(same, forms="html"))
    return Section("advice", "Advice", changes, nav="Advice", folded=True, closed=True)


def _verdict(device: ComparedDevice, name: str, confidence: float) -> blocks.Verdict:
    outcomes, predicted = {row.outcome for row in device.rows}, device.basis == "predicted"
    sure = not outcomes & {"slower", "cannot tell"}
    step = _PREDICTED_BOTH if predicted else _MORE_ROUNDS
    tone: blocks.Tone = "none" if not outcomes else "clear" if sure else "inconclusive"
    headline = words.stated(_headline(device.rows), predicted)
    reason = " ".join(filter(None, (_together(device.drift), recommended(device))))
    step *= "cannot tell" in outcomes
    remark = f"{units.percent(confidence)} intervals of the ratio of times" * (not predicted)
    return blocks.Verdict(device.basis, tone, name, headline, reason, step, remark)


def _together(drift: Drift | None) -> str:
    """The change that all strategies share, and strategies that changed beyond it."""
    if drift is None:
        return ""
    sentences = []
    if drift.together:
        who = f"{'The other' if drift.alone else 'All'} {drift.strategies - len(drift.alone)} strategies"
        sentences.append(f"{who} of the final are {words.slower(drift.common)}: {_SHARED}.")
    for name, ratio in drift.alone.items():
        sentences.append(f"{words.code(name)} changed alone: {words.slower(ratio)} relative to the others.")
    return " ".join(sentences)


def _headline(rows: Sequence[Compared]) -> str:
    if not rows:
        return "no strategy has figures in both"
    by_outcome = words.grouped(rows, lambda row: str(row.outcome))
    phrases = []
    for outcome, verb in (("slower", "slower"), ("faster", "faster"), ("same", "the same")):
        names = [words.code(row.strategy) for row in by_outcome.get(outcome, ())]
        if names:
            few = words.listing(names) if len(names) <= _FEW else f"{len(names)} strategies"
            phrases.append(f"{few} {verb}")
    unclear = len(by_outcome.get("cannot tell", ()))
    if unclear:
        every = unclear == len(rows)
        phrases.append("no strategy is clearly faster or slower" if every else f"{unclear} undecided")
    return ", ".join(phrases)


def recommended(device: ComparedDevice) -> str:
    sides = device.recommended
    base, head = (words.code(name) if name else "no single strategy" for name in (sides.base, sides.head))
    sentence = f"The recommendation changed: {base} in BASE, {head} in HEAD"
    if sides.change == "same":
        sentence = f"Both recommend {base}"
    elif sides.change != "changed":
        sentence = f"It is undecided whether the recommendation changed: {base} in BASE, {head} in HEAD"
    row = next((row for row in device.rows if row.strategy == sides.base), None)
    if row is None:
        return f"{sentence}."
    between = words.ratio_between(row.ratio.low, row.ratio.high)
    return f"{sentence}. {base} takes {units.ratio(row.ratio.value)} its time in BASE ({between})."
