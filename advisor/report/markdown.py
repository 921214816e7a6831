"""Markdown for a pull request's comment: short, whatever the page holds, and inert."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from advisor.report import blocks, words
from advisor.report.answer import Answer, Answers, Change
from advisor.report.page import Page, kept_rows, shown

LIMIT = 6_000


@dataclass(frozen=True)
class Room:
    """How much of each kind is shown; what is left out is counted."""

    rows: int = 8
    columns: int = 7
    devices: int = 4
    """Most verdicts, and most tables."""
    facts: int = 24
    code: bool = True


ROOMS = (
    Room(),
    Room(facts=8),
    Room(facts=8, code=False),
    Room(rows=5, columns=4, devices=2, facts=4, code=False),
)
_BASES = {"predicted": ", predicted: nothing was measured on a GPU", "nothing": ", without a GPU"}
_MOST = 3
"""Most failures, warnings and pieces of advice."""


def render(page: Page, limit: int = LIMIT) -> str:
    """The page in short, under 6,000 characters: in the largest room that keeps it so small."""
    return next(text for room in ROOMS if len(text := _written(page, room)) < limit or room is ROOMS[-1])


def _written(page: Page, room: Room) -> str:
    tables = [(s.folded, b) for s in page.sections for b in shown(s, "md") if isinstance(b, blocks.Table)]
    by_fold = words.grouped(tables, lambda pair: pair[0]).values()
    hidden = {id(table) for same in by_fold for _, table in same[room.devices :]}
    where = f" {escape(page.where, 120)}" if page.where else ""
    writer = _Writer(room, f"{page.kind}.html")
    parts = [f"### {escape(page.name, 250)}{where}{_BASES.get(page.basis, '')}"]
    for section in sorted(page.sections, key=lambda section: section.folded):  # what is folded comes last
        visible = (block for block in shown(section, "md") if id(block) not in hidden)
        inside = "\n\n".join(part for block in visible for part in writer.write(block))
        if inside:
            fold = f"<details><summary>{section.title}</summary>\n\n{inside}\n\n</details>"
            parts.append(fold if section.folded else inside)
    if hidden:
        parts.append(f"{words.count(len(hidden), 'more table')} in {writer.whole}.")
    return "\n\n".join(parts) + "\n"


class _Writer:
    """Writes a block by the method of its name; what has none, such as a chart, is left out.

    whole: the file in which nothing is left out.
    """

    def __init__(self, room: Room, whole: str) -> None:
        self.room, self.whole = room, whole

    def write(self, block: blocks.Block) -> Iterator[str]:
        return getattr(self, type(block).__name__.lower(), lambda _: iter(()))(block)

    def prose(self, block: blocks.Prose) -> Iterator[str]:
        label = f"**{block.label}:** " if block.label else ""
        yield label + prose(block.text)

    def banners(self, block: blocks.Banners) -> Iterator[str]:
        for text in block.texts[:_MOST]:
            yield f"> **{block.label.capitalize()}:** {prose(text)}"
        yield from _more(len(block.texts) - _MOST, block.label, self.whole)

    def failures(self, block: blocks.Failures) -> Iterator[str]:
        for failure in block.items[:_MOST]:
            yield f"**Failure:** {prose(failure.headline)}"
            if failure.excerpt:
                yield fence(failure.excerpt, 500, "")
            yield f"**Next:** {prose(failure.next_step, 200)}"
        yield from _more(len(block.items) - _MOST, "failure", self.whole)

    def answers(self, block: Answers) -> Iterator[str]:
        """The verdicts, one table over all devices, advice, and the code for each of them."""
        alone = len(block.items) == 1
        for verdict in (*block.over, *(answer.verdict for answer in block.items if alone)):
            yield from _verdict(replace(verdict, reason=""))
        if not alone:
            answers, omitted = block.items[: self.room.devices], len(block.items) - self.room.devices
            lines = (f"**{escape(a.verdict.device, 80)}**: {prose(a.verdict.headline)}" for a in answers)
            yield _list((*lines, *_more(omitted, "device", self.whole)))
        yield from _chart(block.items, self.room.rows)
        skipped = tuple(item for item in block.items[0].missing if alone and item.status != "failed")
        yield from self.items(blocks.Items(skipped)) if skipped else ()
        advice = dict.fromkeys(finding for answer in block.items for finding in answer.advice)
        if advice:
            yield _numbered(list(advice))
        for change, devices, _ in block.changes:
            yield self._code(change, "" if alone else f" on {escape(devices, 120)}")

    def _code(self, change: Change, where: str) -> str:
        summary = f"Code for {code(change.strategy, tags=True)}{where}"
        if not self.room.code:
            return f"{summary}: {words.count(change.lines, 'line')}, in {self.whole}."
        return f"<details><summary>{summary}</summary>\n\n{fence(change.code)}\n\n</details>"

    def verdicts(self, block: blocks.Verdicts) -> Iterator[str]:
        if not block.named:
            for verdict in block.items:
                yield from _verdict(verdict)
            return
        lines = []
        for v in block.items[: self.room.devices]:
            texts = (prose(v.headline, 240), prose(v.remark), prose(v.reason))
            sentences = ". ".join(text.rstrip(".") for text in texts if text)
            step = f". **Next:** {prose(v.next_step, 200)}" if v.next_step else ""
            lines.append(f"**{escape(v.device, 80)}**: {sentences}{step}")
        yield _list((*lines, *_more(len(block.items) - self.room.devices, "device", self.whole)))

    def facts(self, block: blocks.Facts) -> Iterator[str]:
        if block.title:
            yield prose(block.title)
        rows = [f"| {prose(f.label, 120)} | {prose(f.value, 160)} |" for f in block.facts[: self.room.facts]]
        yield "\n".join(("| | |", "| :-- | :-- |", *rows))

    def items(self, block: blocks.Items) -> Iterator[str]:
        lines = []
        for item in block.items[: block.most]:
            names = ", ".join(map(code, item.names[:14]))
            who = " ".join(filter(None, (block.label_of(item), names, escape(item.status, 80))))
            points = "; ".join(prose(point, 200) for point in item.points[:_MOST])
            more = "".join(f"; {text}" for text in _more(len(item.points) - _MOST, "reason", self.whole))
            text = prose(item.text, 120) if item.text else f"{points}{more}"
            lines.append(f"{who}: {text}" if text else who)
        yield _list((*lines, *_more(len(block.items) - block.most, "reason", self.whole)))

    def findings(self, block: blocks.Findings) -> Iterator[str]:
        yield _numbered(block.items)

    def code(self, block: blocks.Code) -> Iterator[str]:
        if self.room.code:
            text = fence(block.text, language=block.language)
            yield f"<details><summary>{escape(block.title, 120)}</summary>\n\n{text}\n\n</details>"

    def bullets(self, block: blocks.Bullets) -> Iterator[str]:
        yield _list(map(prose, block.texts))

    def table(self, table: blocks.Table) -> Iterator[str]:
        available = [i for i, column in enumerate(table.columns) if "md" in column.forms]
        # Of a table that may omit columns, those in which something is marked as chosen stay.
        chosen = {i for row in table.rows for i, cell in enumerate(row.cells) if cell.mark == "chosen"}
        matters = chosen if table.left_out else set()
        visible = sorted(sorted(available, key=lambda i: i not in matters)[: self.room.columns])
        first = [escape(table.names, 40)]
        right = [table.by_number]
        for column in (table.columns[i] for i in visible):
            basis = " (predicted)" if column.basis == "predicted" else ""
            heads = [f"{prose(column.head, 80)}{basis}", *filter(None, [escape(column.notes)])]
            first = [*first, *heads]
            right = [*right, *[column.figures] * len(heads)]
        rows = kept_rows(table.rows, self.room.rows)
        if table.title:
            yield prose(table.title)
        yield _drawn(first, right, [_cells(row, table, visible, len(first) - 1) for row in rows])
        if len(rows) < len(table.rows):
            yield f"{len(table.rows) - len(rows)} more in the HTML page."
        if len(visible) < len(available):
            yield f"{words.count(len(available) - len(visible), 'more column')} in {self.whole}."


def _more(number: int, noun: str, whole: str) -> Iterator[str]:
    if number > 0:
        yield f"and {words.count(number, f'more {noun}')} in {whole}"


def _numbered(findings: Sequence[blocks.Finding]) -> str:
    lines = []
    for number, finding in enumerate(findings[:_MOST], 1):
        title = f"**{prose(finding.title, 120)}**"
        title += f" ({escape(finding.places, 120)})" if finding.lines else ""
        where = f" on {escape(finding.where, 120)}"
        title = f"{title}{where}" if finding.devices else f"{escape(finding.rule)}: {title}"
        saves = f": {escape(finding.saves)}" if finding.saves else ""
        lines.append(f"{number}. {title}{saves}. {prose(finding.detail, 400)}")
    return "\n".join(lines)


def _drawn(heads: Sequence[str], right: Sequence[bool], body: Iterable[Sequence[str]]) -> str:
    lines = (heads, ["--:" if figures else ":--" for figures in right], *body)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _chart(answers: Sequence[Answer], rows: int) -> Iterator[str]:
    drawn = [answer for answer in answers if answer.bars][:rows]
    if not drawn:
        return
    bars = [(answer, bar) for answer in drawn for bar in answer.leading(max(1, rows // len(drawn)))]
    mixed, interval = len({answer.predicted for answer in drawn}) > 1, "interval"
    if any(answer.predicted for answer in drawn):
        interval = "interval or range" if mixed else "range"
    against = {answer.against for answer in drawn}
    gain = f"gain over {code(against.pop())}" if len(against) == 1 else "gain over the baseline"
    of = {answer.memory_of for answer in drawn}
    memory = ", ".join(("memory", *of)) if len(of) == 1 and all(of) else "memory"
    heads = ["device", "strategy", drawn[0].counts, interval, "overlapping frames", gain, interval, memory]
    cells = []
    for answer, bar in bars:
        predicted = " (predicted)" * (mixed and answer.predicted)
        device = f"{answer.verdict.device}{predicted}" * (len(answers) > 1)
        names, more = ", ".join(map(code, bar.names[:_MOST])), len(bar.names) - _MOST
        latency = bar.latency.removeprefix("latency; ")
        texts = device, bar.value, bar.between, latency, bar.ratio, bar.ratio_between, bar.memory
        where, *figures = (escape(text, 80) for text in texts)
        cells.append((where, f"{bar.mark}{names}{f' +{more}' * (more > 0)}", *figures))
    used = [i for i, column in enumerate(zip(*cells, strict=True)) if any(column)]
    yield _drawn([heads[i] for i in used], [i > 1 for i in used], [[row[i] for i in used] for row in cells])
    omitted = sum(len(answer.bars) for answer in answers) - len(bars)
    if omitted:
        yield f"{omitted} more in the HTML page."


def _list(texts: Iterable[str]) -> str:
    return "\n".join(f"- {text}" for text in texts)


def _verdict(verdict: blocks.Verdict) -> Iterator[str]:
    yield f"**{prose(verdict.headline)}**"
    yield from map(prose, filter(None, (verdict.remark, verdict.reason)))
    if verdict.next_step:
        yield f"**Next:** {prose(verdict.next_step)}"


def _cells(row: blocks.Row, table: blocks.Table, indices: Sequence[int], width: int) -> list[str]:
    name = f"{code(row.name) if table.codes else escape(row.name, 60)}{f' {row.tag}' if row.tag else ''}"
    if row.missing:
        return [name, escape(row.missing, 80), *[""] * (width - 1)]
    written = [name]
    for cell, column in ((row.cells[i], table.columns[i]) for i in indices):
        value = f"{blocks.SIGNS.get(cell.mark, '')}{escape(cell.value, 80)}"
        written.append(f"**{value}**" if cell.mark in ("slower", "faster") else value)
        written += [escape(cell.note, 80)] if column.notes else []
    return written


# `@` and `#` start a mention and a reference, which GitHub finds after the escapes are gone: a
# character of no width parts them from the name. `$` would start a formula.
_ESCAPES = {character: f"\\{character}" for character in "\\`*_[]|~"}
_ESCAPES |= {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "@&#8203;", "#": "#&#8203;", "$": "&#36;"}
_PLAIN_NAME = re.compile(r"[A-Za-z0-9 ._:/=+-]+")


def escape(text: str, limit: int = 200) -> str:
    """Text that Markdown and HTML show as it is."""
    return _escaped(shortened(text, limit))


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in text)


def shortened(text: str, limit: int) -> str:
    """Text on one line, cut at the end of a sentence, else of a word, if that leaves half of it.

    `limit` is the length with escapes.
    """
    flat = " ".join(text.split())
    lengths = accumulate(len(_ESCAPES.get(character, character)) for character in flat)
    cut = flat[: sum(length <= limit for length in lengths)]
    if cut == flat:
        return flat
    sentence = max(cut.rfind(end) for end in (". ", "; "))
    if 2 * sentence >= len(cut):
        return f"{cut[: sentence + 1].rstrip(';')} …"
    opened = cut.rindex("`") if cut.count("`") % 2 else len(cut)
    cut = cut[:opened] if 2 * opened >= len(cut) else cut
    word = cut.rpartition(" ")[0]
    return f"{(word if 2 * len(word) >= len(cut) else cut).rstrip(' ,;:')}…"


def code(name: str, *, tags: bool = False) -> str:
    """A name in typewriter face: between backticks where it is plain, else escaped between tags."""
    if _PLAIN_NAME.fullmatch(name) and not tags:
        return f"`{name}`"
    return f"<code>{escape(name, 120)}</code>"


def prose(text: str, limit: int = 300) -> str:
    """Prose whose `names` stay code, also one that is cut."""
    cut = shortened(text, limit)
    if cut.count("`") % 2 > text.count("`") % 2:
        cut += "`"
    return "".join(code(text) if is_name else _escaped(text) for text, is_name in words.spans(cut))


def fence(text: str, limit: int = 6_500, language: str = "python") -> str:
    """A code block whose fence is longer than any run of backticks within; cut, if at all, after a line."""
    cut = text
    if len(text) > limit:
        whole_lines = text[: limit + 1].rpartition("\n")[0]
        cut = f"{whole_lines or text[:limit]}\n# … cut, see the report"
    longest = max((len(run) for run in re.findall("`+", cut)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}{language}\n{cut}\n{marks}"
