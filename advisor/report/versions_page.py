"""Two versions of the code as a page: the answer, what changed where, then what any comparison has."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from advisor import stats, units
from advisor.errors import AdvisorError
from advisor.profiles.sweeps import was_interrupted
from advisor.report import blocks, words
from advisor.report.comparison_page import advice, changed_rows, figures, gated, promise, recommended
from advisor.report.page import Page, Section, filled
from advisor.report.records import compared
from advisor.verdicts.comparing.gates import Ruling
from advisor.verdicts.comparing.results import retyped
from advisor.verdicts.comparing.versions import VersionComparison
from advisor.verdicts.estimate import FEWEST_FOR_NOISE
from advisor.verdicts.final import FEWEST_PROCESSES
from advisor.verdicts.versions import PARTS_CONFIDENCE, REST, Change

_MOST_PARTS = 6
_MOST_CHANGES = 2
_KINDS = {"host": "stage", "device": "kernel"}
_COPIES = {"to-device": "copy to device", "to-host": "copy to host", "host-copy": "host copy"}


_NEUTRAL = "Frames of BASE and HEAD do different work, so no gate on times applies."


def versions_page(comparison: VersionComparison, rulings: Sequence[Ruling] = ()) -> Page:
    run, where = comparison.run, words.name(comparison.head.device.name)
    named = f"{words.name(comparison.head.workload.name)} on {where}"
    pairs = zip(("BASE", "HEAD"), run.versions, strict=True)
    sides = [blocks.Fact(side, words.line(name, 200)) for side, name in pairs]
    about = (blocks.Fact("workload", named), *sides)
    heading = words.name(comparison.head.workload.name)
    sections = tuple(_sections(comparison, where, rulings, about))
    page = Page("compare", "comparison", answer(comparison), sections, f"{heading}, HEAD vs. BASE")
    meta = (named, *(f"{side.label} {side.value}" for side in sides))
    return replace(page, meta=meta, records=compared(comparison, comparison.promise))


def _sections(
    comparison: VersionComparison, where: str, rulings: Sequence[Ruling], about: tuple[blocks.Fact, ...]
) -> Iterator[Section]:
    run, device, how = comparison.run, comparison.devices[0], _how(comparison)
    ratios = figures(device, where, comparison)
    widened = "The versions ran in separate processes, whose differences widen the interval"
    apart = f"{widened}: {words.line(run.apart, 200)}." if run.apart else ""
    verdict = blocks.Verdict("measured", "clear", where, answer(comparison), next_step=_next_step(comparison))
    if not (run.judged.decided and run.judged.trusted):
        verdict = replace(verdict, tone="inconclusive")
    first = (
        blocks.Facts(about, forms="txt"),
        blocks.Verdicts((verdict,), forms="html"),
        blocks.Fold("How it was measured", filled(blocks.Prose(how), blocks.Prose(apart)), forms="html txt"),
        blocks.Prose(_NEUTRAL * bool(comparison.changed_work)),
        blocks.Prose(promise(comparison.promise), kind=""),
    )
    yield from gated(rulings, first)
    yield changed_rows([(where, device)], comparison)
    measured = filled(blocks.Facts(about), blocks.Prose(how), blocks.Prose(apart), *ratios)
    yield Section("all", "All strategies and how they were measured", measured, folded=True, forms="md")
    title = f"HEAD compared with BASE on {where}"
    yield Section("ratios", title, ratios, nav="Ratios", brief=True, forms="html txt")
    seconds = run.judged.seconds
    parts = tuple(
        _table(name, changes, seconds.get(name)) for name, changes in run.changes.items() if changes
    )
    yield Section("parts", "Parts of a frame", parts, nav="What changed", brief=True, folded=True)
    advised = (d for d in comparison.devices if d.recommended.base or d.recommended.head)
    recommendations = (blocks.Fact(words.name(d.device.name), recommended(d)) for d in advised)
    notes = tuple(words.line(note, 500) for note in comparison.notes)
    around = filled(blocks.Facts(tuple(recommendations)), blocks.Banners("note", notes))
    title = "Recommendation and notes"
    yield Section("around", title, around, nav="Recommendation", folded=True, closed=True)
    yield advice(comparison)


def uncompared_page(workload: str, why: AdvisorError, rulings: Sequence[Ruling] = ()) -> Page:
    """The page where HEAD runs, and BASE fails or has no such workload."""
    first = (blocks.Prose("HEAD runs. Its times will be compared from the next change on."),)
    unexplained = [replace(each, reasons=()) for each in rulings]  # the page's name has the reason
    name = f"Nothing to compare: {words.line(why.message, 200)}"
    sections = tuple(gated(unexplained, first))
    return Page(
        kind="compare", brand="comparison", name=name, meta=(words.name(workload),), sections=sections
    )


def _next_step(comparison: VersionComparison) -> str:
    """The next step: check results first, then settle open verdicts, then look at slower parts."""
    run, judged = comparison.run, comparison.run.judged
    if comparison.results.different:
        return "Check the results before the times."
    if judged.noise and not judged.trusted:
        return "Repeat the run on an idle machine."
    if judged.undecided and was_interrupted(run):
        return "Run again, to the end."
    if judged.undecided:
        settles = judged.seconds_more is not None or judged.processes < FEWEST_PROCESSES
        return (
            "Run again with a larger --max-seconds." if settles else "More time is unlikely to settle this."
        )
    slower = [name for name, ratio in judged.ratios.items() if ratio.low > 1]
    if not slower:
        return "Nothing is slower. No action is needed."
    parts = dict.fromkeys(_name(c.part) for n in slower for c in run.changes[n] if c.sure and c.seconds > 0)
    listed = words.listing(map(words.code, parts), limit=3)
    return f"Look at what takes longer: {listed}." if parts else "Look at what changed in the code."


def answer(comparison: VersionComparison) -> str:
    """The answer in one line: changed results and work, then ratios by strategy and the part that changed."""
    work = (*comparison.changed_work, *retyped(comparison.base.workload, comparison.head.workload))
    changed = "; ".join(words.line(text, 120) for text in work[:_MOST_CHANGES])
    times = f"{changed}: {_times(comparison)}" if changed else _times(comparison)
    return "; ".join(filter(None, (comparison.results.sentence, times)))


def _times(comparison: VersionComparison) -> str:
    run, judged = comparison.run, comparison.run.judged
    if judged.noise and not judged.trusted:
        return f"untrusted: a second copy of HEAD takes {_ends(judged.noise)} than HEAD; repeat the run"
    texts, sentences = {n: _ratio_words(comparison, n, ratio) for n, ratio in judged.ratios.items()}, []
    alike = words.grouped(texts, lambda name: texts[name])
    for text, names in sorted(
        alike.items(), key=lambda pair: _URGENCY.index(next(filter(pair[0].startswith, _URGENCY)))
    ):
        ratio, part = judged.ratios[names[0]], ""
        of_it = [c for c in run.changes[names[0]] if c.sure and (c.seconds > 0) == (ratio.value > 1)]
        if of_it and not ratio.low <= 1 <= ratio.high:
            part = f": {_name(of_it[0].part)} {_signed(of_it[0].seconds)}"
        sentences.append(f"{text} under {words.listing(map(words.name, names))}{part}")
    if was_interrupted(run):
        sentences.append("interrupted")
    elif judged.undecided and judged.processes < FEWEST_PROCESSES:
        sentences.append("run again with a larger --max-seconds")
    elif judged.undecided:
        more = judged.seconds_more
        settles = "more time is unlikely to settle this"
        sentences.append(settles if more is None else f"about {units.digits(more, 2)} s more would settle it")
    return "; ".join(sentences)


_TOO_WIDE = 10
"""An interval whose ends differ by this factor shows only that there are too few blocks."""
_URGENCY = ("slower", "undecided:", "faster", "")
"""How texts begin, in their order in the answer."""


def _ratio_words(comparison: VersionComparison, name: str, ratio: stats.Ratio) -> str:
    question, judged = comparison.run.question, comparison.run.judged
    if ratio.low > 1 or ratio.high < 1:
        return words.slower(ratio)
    if question.undecided(ratio):
        ends = _ends(ratio) if ratio.high / ratio.low < _TOO_WIDE else "too few blocks"
        return f"undecided: {ends}" if name in judged.undecided else ends
    if (share := question.same_within(ratio)) is not None:
        return f"the same within {share * 100:g} % ({_ends(ratio)})"
    return f"at most {_percent(ratio.high - 1)} slower ({_ends(ratio)})"


def _ends(ratio: stats.Ratio) -> str:
    """`1.2 % less to 3.4 % more`."""
    ends = (f"{_percent(abs(end - 1))} {'less' if end < 1 else 'more'}" for end in (ratio.low, ratio.high))
    return f"{' to '.join(ends)} time"


def _percent(share: float) -> str:
    return f"{share * 100:.{int(share < 0.0995)}f} %"


def _name(label: str) -> str:
    """The page's name of a step, such as `stage blend`."""
    side, colon, stage = label.partition(":")
    return f"{_KINDS[side]} {words.name(stage)}" if colon else _COPIES.get(label, label)


def _signed(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else units.MINUS}{units.seconds(abs(seconds), 2)}"


def _how(comparison: VersionComparison) -> str:
    run, judged = comparison.run, comparison.run.judged
    spread = f"; blocks of one version differ by {_percent(judged.spread)}" if judged.spread else ""
    inside = "round" if run.apart else "process"
    sentences = [
        f"{words.count(judged.rounds, 'round')} in {words.count(judged.processes, 'process')}{spread}.",
        f"Ratios within a {inside}, {comparison.confidence * 100:g} % intervals.",
    ]
    if judged.rounds < FEWEST_FOR_NOISE:
        sentences.append(f"With so few rounds, blocks are assumed to vary by {_percent(judged.supposed)}.")
    if judged.undecided and run.preparing_seconds:
        sentences.append(
            f"Checking and screening took {units.digits(run.preparing_seconds, 2)} s of the time."
        )
    if judged.noise and judged.noise.high < _TOO_WIDE * judged.noise.low:
        sentences.append(f"A second copy of HEAD takes {_ends(judged.noise)} than HEAD.")
    sentences += [
        f"{words.name(name)} left the final: {words.line(why, 200)}." for name, why in run.left.items()
    ]
    return " ".join(sentences)


def _table(strategy: str, changes: Sequence[Change], frame: tuple[float, float] | None) -> blocks.Table:
    sides = ([c.base_seconds for c in changes], [c.head_seconds for c in changes])
    sums = [math.fsum(each or 0.0 for each in side) for side in sides]
    overlap = frame is not None and any(whole > 1.01 * one for whole, one in zip(sums, frame, strict=True))
    rest = f"{REST.capitalize()} is the rest of a frame."
    if overlap:
        rest = "Frames overlap, so their parts take longer together than from one frame to the next."
    rows = []
    for each in [c for c in changes if c.part != REST or c.sure][:_MOST_PARTS]:
        between, verdict = "no interval", "too few rounds"
        if each.low is not None and each.high is not None:
            between, verdict = f"{_signed(each.low)} to {_signed(each.high)}", "within noise"
        verdict = "changed" if each.sure else verdict
        both = (each.base_seconds, each.head_seconds)
        times = ("none" if seconds is None else units.seconds(max(0.0, seconds)) for seconds in both)
        difference = blocks.TableCell(_signed(each.seconds), between)
        rows.append(blocks.row(_name(each.part), *times, difference, verdict, rank=not each.sure))
    interval = f"{PARTS_CONFIDENCE * 100:g} % interval"
    difference_head = blocks.Column("HEAD - BASE", notes=interval, brief="difference")
    heads = (*blocks.columns("BASE", "HEAD", difference_head), blocks.Column("verdict", figures=False))
    caption = f"Under {words.name(strategy)}. {rest}"
    title = f"Parts of a frame under {strategy}:"
    return blocks.Table("parts", "part", heads, tuple(rows), caption=caption, title=title, codes=False)
