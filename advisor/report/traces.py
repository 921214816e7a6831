"""Traces: the timelines of a profile's page, and the page of one nsys file or of two compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import quantiles

from advisor import units
from advisor.nsys.exports import FileTrace
from advisor.profiles.programs import GpuTrace, ProgramTrace
from advisor.profiles.schema import Profile
from advisor.profiles.traces import Activity, StrategyTrace
from advisor.report import blocks, words
from advisor.report.answer import marks
from advisor.report.blocks import Column, Fact, Table, row
from advisor.report.page import Page, Section, filled
from advisor.report.programs import program_page
from advisor.report.records import flows_of
from advisor.report.timelines import timeline_view
from advisor.verdicts.comparing.gates import Finding

SLOWER = "Traced times are usually longer than untraced ones and are not used for the verdict."
NONE = "none"
"""Value of a figure that was traced and did not occur."""
_PAGE = 4096
"""Bytes: less static memory comes with loading any kernel, whatever the strategy."""
_CALLED = {"cpu_page_faults": "page faults by the CPU", "gpu_page_faults": "page faults by the GPU"}


def traces(profile: Profile) -> tuple[blocks.Block, ...]:
    """The timeline of one strategy, the recommended or else the fastest; and what nsys recorded of each.

    Nothing where no timeline was recorded and no trace was asked for.
    """
    rows, trace = profile.measured(), profile.trace
    by_strategy, chosen = {name: trace.of(name) for name in rows}, next(iter(marks(profile)), None)
    recorded = {
        name: (traced and traced.timeline) or rows[name].timeline for name, traced in by_strategy.items()
    }
    drawn = {name: timeline for name, timeline in recorded.items() if timeline}
    first = min(drawn, key=lambda name: (name != chosen, rows[name].median_seconds), default=None)
    folds = []
    for name, traced in by_strategy.items():
        view = partial(timeline_view, cpu=profile.device.kind == "cpu")
        picture = (view(name, rows[name].median_seconds, drawn[name]),) if name == first else ()
        if parts := (*picture, *(_seen(traced) if traced else ())):
            here = name == chosen
            folds.append(blocks.Fold(f"{words.code(name)}{' (recommended)' * here}", parts, open=here))
    folds = [replace(fold, open=True) for fold in folds] if len(folds) == 1 else folds
    notes = (blocks.Prose(words.line(note, 300), forms="html") for note in trace.notes)
    requested = trace.reason != "not asked for"
    if not folds and not requested:
        return ()
    told = f"No nsys trace: {words.line(trace.reason, 400)}"
    if trace.strategies:
        told = f"Each strategy also ran under {words.name(trace.tool or 'nsys')}; traced times are not used."
        for gone in trace.missing:
            told += f" {words.code(gone.strategy)} has no trace: {words.line(gone.reason, 200)}."
    return filled(blocks.Prose(told * requested, forms="html md"), *notes, *folds)


def _seen(traced: StrategyTrace) -> tuple[blocks.Block, ...]:
    lasted = units.seconds(traced.frame_seconds)
    title = f"per frame, over {words.count(traced.frames, 'steady frame')} of {lasted}"
    absent = f" Not observed: {'; '.join(not_observed(traced.absent))}." if traced.absent else ""
    figures = [*facts(traced.activity, traced.frames, traced.idle_share, "the traced frame")]
    for each in traced.allocations or ():
        if not each.kind.endswith("static") or each.bytes >= _PAGE:
            sizes = f"{words.count(each.count, 'allocation')}, the largest {units.size(each.largest_bytes)}"
            amount = f"{units.size(each.bytes)} ({sizes})"
            figures.append(blocks.Fact(f"allocated, {words.name(each.kind)}", amount))
    return filled(
        blocks.Prose(f"Recorded by nsys, {title}.{absent}"),
        blocks.Facts(tuple(figures)),
        blocks.Fold("By range", filled(blocks.Facts(tuple(steps(traced))))),
    )


def facts(
    activity: Activity, frames: int, idle: float | None = None, whole: str = ""
) -> Iterator[blocks.Fact]:
    if activity.copies == ():
        yield blocks.Fact("copies", NONE)
    for c in activity.copies or ():
        path = " to ".join(part for part in (c.source, c.destination) if part)
        each = f"{_number(c.count, frames, 'copy')}, {units.seconds(c.seconds / frames)}"
        rate = units.rate(c.bytes_per_second) if c.bytes_per_second else ""
        value = "; ".join(filter(None, (path, each, rate)))
        yield blocks.Fact(f"copies {c.kind}", f"{units.size(round(c.bytes / frames))} ({value})")
    for direction, mine in words.grouped(activity.migrations or (), lambda m: m.direction).items():
        causes = []
        for m in mine:
            size = f" {units.size(round(m.bytes / frames))}" if len(mine) > 1 else ""
            causes.append(f"{m.cause or 'cause unknown'}{size} in {_number(m.count, frames, 'move')}")
        total = units.size(round(sum(m.bytes for m in mine) / frames))
        lasted = units.seconds(sum(m.seconds for m in mine) / frames)
        yield blocks.Fact(f"migrations {direction}", f"{total} ({', '.join(causes)}; {lasted})")
    for who, faults in (("CPU", activity.cpu_page_faults), ("GPU", activity.gpu_page_faults)):
        if faults is not None:
            yield blocks.Fact(f"page faults by the {who}", _plain(faults / frames))
    for k in activity.kernels or ():
        value = f"{units.seconds(k.seconds / frames)} ({_number(k.count, frames, 'run')})"
        yield blocks.Fact(f"kernel {words.name(k.name)}", value)
    for s in activity.synchronizations or ():
        value = f"{units.seconds(s.seconds / frames)} ({_number(s.count, frames, 'wait')})"
        yield blocks.Fact(f"waits, {s.kind}", value)
    if idle is not None:
        yield blocks.Fact("GPU idle", f"{units.percent(idle)} of {whole}")


def steps(trace: StrategyTrace) -> Iterator[blocks.Fact]:
    """Each range with the host's time in it, and what was launched or happened there; per frame."""
    for step in trace.ranges:
        observed = facts(step.activity, trace.frames)
        some = (fact for fact in observed if fact.value not in ("0", NONE))
        texts = [f"{fact.label} {fact.value.partition(' (')[0]}" for fact in some]
        times = f"{units.seconds(step.seconds)} each, {_number(step.count, trace.frames, 'time')}"
        yield blocks.Fact(words.name(step.name), "; ".join([times, *texts]))


def _number(count: int, frames: int, noun: str) -> str:
    """The number per frame: 1 run, 2.5 runs."""
    return f"{_plain(count / frames)} {noun if count == frames else words.plural(noun)}"


def _plain(value: float) -> str:
    return str(round(value)) if value == round(value) else units.digits(value)


def not_observed(absent: Mapping[str, str]) -> list[str]:
    by_reason = words.grouped(absent, lambda figure: absent[figure])
    return [
        f"{words.listing(_CALLED.get(n, n.replace('_', ' ')) for n in names)} ({words.line(why, 200)})"
        for why, names in by_reason.items()
    ]


def trace_page(trace: FileTrace, file: str = "") -> Page:
    """The page of one file: the strategies of an advisor run, or the GPUs of any other program."""
    tool = words.name(trace.tool or "nsys export of unknown version")
    name = f"{words.name(file)} ({tool})" if file else tool
    if trace.program is not None:
        return program_page(trace.program, name, trace.notes)
    notes = blocks.Banners("note", tuple(map(words.line, trace.notes)))
    figures = []
    for each in trace.strategies:
        frames = f"{words.count(each.frames, 'steady frame')} of {units.seconds(each.frame_seconds)}"
        observed = [*facts(each.activity, each.frames, each.idle_share, "the frame")]
        observed += [replace(fact, label=f"in {fact.label}") for fact in steps(each)]
        observed += [blocks.Fact("not observed", why) for why in not_observed(each.absent)]
        title = f"{words.name(each.strategy)}: {frames}, figures per frame"
        figures.append(blocks.Facts(tuple(observed), title))
    parts = filled(notes, *figures, blocks.Prose(SLOWER))
    fields = {"strategy", "frames", "frame_seconds", "idle_share"}
    records = ({"kind": "traced", **each.model_dump(include=fields)} for each in trace.strategies)
    sections = (Section("figures", "Figures", parts, brief=True),)
    return Page("trace", "trace", name, sections, records=tuple(records))


_PARTS: tuple[tuple[str, Callable[[GpuTrace], float | None]], ...] = (
    ("frame", lambda gpu: gpu.seconds),
    ("kernels", lambda gpu: gpu.kernel_seconds),
    ("copies", lambda gpu: gpu.copy_seconds),
    ("of these, overlapping kernels", lambda gpu: gpu.hidden_seconds),
    ("migrations", lambda gpu: gpu.managed.seconds if gpu.managed else None),
    ("idle", lambda gpu: gpu.idle_seconds),
    ("memory can change about", lambda gpu: gpu.ceiling.seconds if gpu.ceiling else None),
)


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
    rows = []
    for name, part in _PARTS:
        pairs = ((part(gpu), gpu.units if framed else 1) for gpu in (base, head))
        before, now = times = [None if seconds is None else seconds / frames for seconds, frames in pairs]
        ratio = units.ratio(now / before) if before and now is not None else blocks.NOTHING
        cells = (blocks.NOTHING if t is None else units.seconds(t) if t else "0" for t in times)
        rows.append(row(name, *cells, ratio))
    names = "per frame" if framed else "in all"
    heads = tuple(map(Column, ("BASE", "HEAD", "HEAD over BASE")))
    return Table("parts", names, heads, tuple(rows), base.label, base.label, codes=False)


def slower(limit: float, base: ProgramTrace, head: ProgramTrace) -> Iterator[Finding]:
    """Whether frames take longer by more than the limit: failed where the middle halves of both say so."""
    for one in base.gpus:
        other = next((gpu for gpu in head.gpus if gpu.label == one.label), None)
        frames = [
            gpu.frames.steady for gpu in (one, other) if gpu and gpu.frames and len(gpu.frames.steady) > 1
        ]
        if len(frames) < 2:
            yield Finding("inconclusive", f"{one.label} does not have frames in both reports")
            continue
        (low, middle, high), (head_low, head_middle, _) = (quantiles(each, n=4) for each in frames)
        ratio = f"{one.label}: the median frame takes {units.ratio(head_middle / middle)} the time"
        if head_middle <= middle * (1 + limit):
            yield Finding("passed", ratio)
        elif head_low > high * (1 + limit):
            yield Finding("failed", ratio)
        else:
            apart = units.ratio(high / low)
            yield Finding("inconclusive", f"{ratio}, but frames differ by as much ({apart})")
