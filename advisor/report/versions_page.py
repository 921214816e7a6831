"""Two versions of the code as a page: the answer, what changed where, then what any comparison has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from advisor import stats, units
from advisor.errors import AdvisorError
from advisor.report import blocks, words
from advisor.report.comparison_page import advice, changed_rows, figures, gates, recommended, ruled
from advisor.report.page import Page, Section, filled, lead
from advisor.report.records import compared
from advisor.verdicts.comparing.gates import Ruling
from advisor.verdicts.estimate import FEWEST_FOR_NOISE, SUPPOSED_NOISE
from advisor.verdicts.final import FEWEST_PROCESSES
from advisor.verdicts.versions import PARTS_CONFIDENCE, REST, Change, Judged, VersionComparison

_MOST_PARTS = 6
_MOST_CHANGES = 2
_KINDS = {"host": "stage", "device": "kernel"}
_COPIES = {
    "to-device": "copy to device",
    "to-host": "copy to host",
    "host-copy": "host copy",
}


_NEUTRAL = "Frames of BASE and HEAD do different work, so no gate on times applies."


def versions_page(found: VersionComparison, rulings: Sequence[Ruling] = ()) -> Page:
    """Everything that one run says of the two."""
    run, workload = found.run, words.name(found.head.workload.name)
    where = words.name(found.head.device.name)
    sides = tuple(
        blocks.Fact(side, words.line(told, 200))
        for side, told in zip(("BASE", "HEAD"), run.versions, strict=True)
    )
    device = found.devices[0]
    table = figures(device, where, 1, found)
    told = blocks.Verdict(
        basis="measured",
        tone="clear" if run.judged.settled and run.judged.trusted else "inconclusive",
        device=where,
        headline=answer(found),
        reason=_how(found),
        next_step="",
    )
    about = blocks.Fact("workload", f"{workload} on {where}"), *sides
    measured = filled(blocks.Facts(about), blocks.Prose(_how(found)), blocks.Prose(_apart(found)), *table)
    gated = [gates(rulings)] if rulings else []
    seconds = run.judged.seconds
    parts = tuple(_table(name, told, seconds.get(name)) for name, told in run.changes.items() if told)
    return Page(
        kind="compare",
        brand="comparison",
        name=answer(found),
        meta=(f"{workload} on {where}", *(f"{side.label} {side.value}" for side in sides)),
        sections=(
            *(replace(section, forms="txt") for section in gated),
            lead(
                blocks.Facts(about, forms="txt"),
                blocks.Verdicts((told,), forms="html"),
                blocks.Prose(ruled(rulings), "Gates", ("Why", "#gates"), "next together", forms="html")
                if rulings
                else None,
                blocks.Prose(_how(found), forms="txt"),
                blocks.Prose(_apart(found), forms="html txt"),
                blocks.Prose(_NEUTRAL * bool(found.changed_work)),
            ),
            *(replace(section, forms="html md") for section in gated),
            changed_rows([(where, device)], found),
            Section("all", "All strategies and how they were measured", measured, folded=True, forms="md"),
            Section(
                "ratios",
                f"HEAD compared with BASE on {where}",
                table,
                nav="Ratios",
                brief=True,
                forms="html txt",
            ),
            Section("parts", "Parts of a frame", parts, nav="What changed", brief=True, folded=True),
            _around(found),
            advice(found),
        ),
        records=compared(found),
    )


def uncompared_page(workload: str, why: AdvisorError, rulings: Sequence[Ruling] = ()) -> Page:
    """HEAD runs and BASE has no such workload, or fails: that is all there is to say."""
    gated = [gates(rulings)] if rulings else []
    return Page(
        kind="compare",
        brand="comparison",
        name=f"Nothing to compare: {words.line(why.message, 200)}",
        meta=(words.name(workload),),
        sections=(
            lead(
                blocks.Prose("HEAD runs. Its times will be compared from the next change on."),
                blocks.Prose(words.line(why.next_step, 300), "Next", kind="next"),
            ),
            *gated,
        ),
    )


def answer(found: VersionComparison) -> str:
    """The one line: other results and other work, then by how much, under what, and which part of a frame."""
    changed = "; ".join(words.line(text, 120) for text in found.changed_work[:_MOST_CHANGES])
    times = f"{changed}: {_times(found)}" if changed else _times(found)
    return "; ".join(filter(None, (found.run.results.sentence, times)))


def _times(found: VersionComparison) -> str:
    run = found.run
    if run.judged.noise and not run.judged.trusted:
        return f"untrusted: a second copy of HEAD takes {_ends(run.judged.noise)} than HEAD; repeat the run"
    said = {name: _said(found, name, ratio) for name, ratio in run.judged.ratios.items()}
    told = []
    alike = words.grouped(said, lambda name: said[name])
    for text, names in sorted(alike.items(), key=lambda pair: _URGENCY.index(pair[0].split()[0])):
        listed = words.listing(map(words.name, names))
        part = _where(run.changes[names[0]], run.judged.ratios[names[0]])
        told.append(f"{text} under {listed}{part}")
    return "; ".join((*told, *_what_would_settle(run.judged)))


_RAISE = "raise --max-seconds"


def _what_would_settle(judged: Judged) -> list[str]:
    """What is open."""
    if not judged.open:
        return []
    if judged.processes < FEWEST_PROCESSES:
        return [_RAISE]
    if judged.seconds_more is None:
        return [f"if {'they stay' if len(judged.open) > 1 else 'it stays'} so, no reasonable time settles it"]
    return [f"about {units.digits(judged.seconds_more, 2)} s more would settle it"]


_TOO_WIDE = 10
"""Times its low end from which an interval says only that it comes from very few blocks."""
_URGENCY = ("slower", "open:", "faster", "at", "the")
"""First words of what is said of a strategy, in the order in which they are told."""


def _said(found: VersionComparison, name: str, ratio: stats.Ratio) -> str:
    question = found.run.question
    if ratio.low > 1 or ratio.high < 1:
        return words.slower(ratio)
    if question.same(ratio):
        return f"the same within {question.indifference * 100:g} % ({_ends(ratio)})"
    if name not in found.run.judged.open:
        return f"at most {_percent(ratio.high - 1)} slower ({_ends(ratio)})"
    return f"open: {_ends(ratio)}" if ratio.high / ratio.low < _TOO_WIDE else "open: too few blocks"


def _ends(ratio: stats.Ratio) -> str:
    """`1.2 % less to 3.4 % more`."""
    ends = (f"{_percent(abs(end - 1))} {'less' if end < 1 else 'more'}" for end in (ratio.low, ratio.high))
    return f"{' to '.join(ends)} time"


def _percent(share: float) -> str:
    return f"{share * 100:.{int(share < 0.0995)}f} %"


def _where(changes: Sequence[Change], ratio: stats.Ratio) -> str:
    """The part that has most of the difference, where one clearly has some of it."""
    if ratio.low <= 1 <= ratio.high:
        return ""
    slower = ratio.value > 1
    of_it = [c for c in changes if c.sure and (c.seconds > 0) == slower]
    return f": {_name(of_it[0].part)} {_signed(of_it[0].seconds)}" if of_it else ""


def _name(label: str) -> str:
    """stage blend, as the page calls a step's label."""
    side, colon, stage = label.partition(":")
    return f"{_KINDS[side]} {words.name(stage)}" if colon else _COPIES.get(label, label)


def _signed(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else '-'}{units.seconds(abs(seconds), 2)}"


def _how(found: VersionComparison) -> str:
    """How it was measured, and what that is worth."""
    run, judged = found.run, found.run.judged
    spread = f"; blocks of one version differ by {_percent(judged.spread)}" if judged.spread else ""
    told = [
        f"{words.count(judged.rounds, 'round')} in {words.count(judged.processes, 'process')}{spread}.",
        f"Ratios within a process, {found.confidence * 100:g} % intervals.",
    ]
    if judged.rounds < FEWEST_FOR_NOISE:
        told.append(f"With so few rounds, blocks are assumed to vary by {_percent(SUPPOSED_NOISE)}.")
    if judged.open and run.preparing_seconds:
        told.append(f"Checking and screening took {units.digits(run.preparing_seconds, 2)} s of the time.")
    if judged.noise and judged.noise.high < _TOO_WIDE * judged.noise.low:
        told.append(f"A second copy of HEAD takes {_ends(judged.noise)} than HEAD.")
    told += [f"{words.name(name)} left the final: {words.line(why, 200)}." for name, why in run.left.items()]
    return " ".join(told)


def _apart(found: VersionComparison) -> str:
    """Says that the versions share no process, why, and what that costs."""
    if not found.run.apart:
        return ""
    return (
        "The versions ran in adjacent processes that alternate, which makes the interval "
        f"{units.digits(found.run.judged.wider, 2)} times as wide as in one process: "
        f"{words.line(found.run.apart, 200)}."
    )


def _table(strategy: str, told: Sequence[Change], frame: tuple[float, float] | None) -> blocks.Table:
    sides = ([c.base_seconds for c in told], [c.head_seconds for c in told])
    sums = [math.fsum(each or 0.0 for each in side) for side in sides]
    overlap = frame is not None and any(whole > 1.01 * one for whole, one in zip(sums, frame, strict=True))
    rows = tuple(
        blocks.Row(
            _name(each.part),
            (
                blocks.TableCell(_seconds(each.base_seconds)),
                blocks.TableCell(_seconds(each.head_seconds)),
                blocks.TableCell(
                    _signed(each.seconds),
                    "no interval"
                    if each.low is None or each.high is None
                    else f"{_signed(each.low)} to {_signed(each.high)}",
                ),
                blocks.TableCell(
                    "changed" if each.sure else "too few rounds" if each.low is None else "within noise"
                ),
            ),
            rank=0 if each.sure else 1,
        )
        for each in [each for each in told if each.part != REST or each.sure][:_MOST_PARTS]
    )
    return blocks.Table(
        "parts",
        "part",
        (
            blocks.Column("BASE"),
            blocks.Column("HEAD"),
            blocks.Column("HEAD - BASE", notes=f"{PARTS_CONFIDENCE * 100:g} % interval", brief="difference"),
            blocks.Column("verdict", figures=False),
        ),
        rows,
        caption=f"Under {words.name(strategy)}. "
        + (
            "Frames overlap, so their parts take longer together than from one frame to the next."
            if overlap
            else f"{REST.capitalize()} is the rest of a frame."
        ),
        title=f"Parts of a frame under {strategy}:",
        codes=False,
    )


def _seconds(value: float | None) -> str:
    return "none" if value is None else units.seconds(max(0.0, value))


def _around(found: VersionComparison) -> Section:
    """What the two are, notes, and what is recommended."""
    told = [
        blocks.Fact(words.name(device.device.name), recommended(device))
        for device in found.devices
        if device.recommended.base or device.recommended.head
    ]
    notes = tuple(words.line(note, 500) for note in found.notes)
    parts = filled(blocks.Facts(tuple(told)), blocks.Banners("note", notes))
    return Section("around", "Recommendation and notes", parts, nav="Recommendation", folded=True)
