"""The page of a report of any program: what memory can change, the advice, then each GPU's figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import starmap
from statistics import median

from advisor import units
from advisor.profiles.conclusions import Advice, Evidence
from advisor.profiles.programs import Flow, GpuTrace, ProgramTrace
from advisor.profiles.traces import Timeline
from advisor.report import blocks, words
from advisor.report.blocks import Block, Column, Fact, Finding, Row, Table, TableCell, Verdict
from advisor.report.page import Page, Section, filled
from advisor.report.records import flows_of
from advisor.report.timelines import timeline_view

SLOWER = (
    "Recording usually slows a program; these times are the report's own. Waiting for kernels is not "
    "counted, nor are kernels that read host memory in place, which a report does not show."
)
_WAYS = {"host-to-device": "upload", "device-to-host": "download", "peer-to-peer": "peer copy"}
_LINKS = {"host-to-device": "to-device", "device-to-host": "to-host"}
_HOST = {
    "page-locking": "page-locking and unlocking",
    "allocation": "cudaMalloc, cudaFree",
    "copies": "copy calls",
    "waits": "waits for the GPU",
    "launches": "launches",
    "other": "other CUDA calls",
}
_FOUND = {
    "all work": "by all their work",
    "uploads": "by their uploads",
    "kernels as often": "by kernels that run equally often",
    "uploads by size": "by the sizes of their uploads, near enough",
    "downloads": "by their downloads",
}
_ONE = "Recorded by nsys: one of the steady frames"
_NEAR = 0.05
"""The share by which figures of two GPUs may differ that are told as the same."""


def program_page(program: ProgramTrace, name: str, notes: Sequence[str]) -> Page:
    """The page of a report, whose data are already `judged`."""
    gpus = program.gpus
    lead = Section(
        "verdict",
        "What memory can change",
        filled(
            blocks.Banners("note", tuple(map(words.line, notes))),
            blocks.Verdicts(tuple(_verdicts(gpus)), named=True),
            blocks.Facts(tuple(_advised(program)), "Advice:", forms="md txt"),
            blocks.Prose(_nothing(program)),
        ),
        nav="Verdict",
        lead=True,
    )
    sections = (
        lead,
        Section(
            "advice",
            "Advice",
            filled(
                blocks.Findings(_findings(program, fired=True)),
                blocks.Bullets(tuple(map(words.line, program.questions))),
            ),
            nav="Advice",
            forms="html",
        ),
        *(_gpu_section(gpu, first=gpu is _drawn(gpus)) for gpu in gpus),
        Section(
            "more",
            "Not found and not recorded",
            filled(
                blocks.Facts(
                    tuple(starmap(Fact, program.absent.items())),
                    "Not recorded (option of nsys profile that does):",
                ),
                blocks.Facts(tuple(_ranges(program))),
                blocks.Fold("Rules without advice", filled(blocks.Findings(_findings(program, fired=False)))),
                blocks.Prose(SLOWER),
            ),
            nav="Limits",
            brief=True,
        ),
    )
    return Page(kind="trace", brand="trace", name=name, sections=sections, records=flows_of(gpus))


def _nothing(program: ProgramTrace) -> str:
    if not program.gpus:
        return "The report holds no work of a GPU, so nothing can be said of it."
    return "" if any(_fired(program)) else "No rule that a report can carry gives advice."


def _fired(program: ProgramTrace) -> list[Advice]:
    advice = [one for one in program.advice if one.outcome == "advice"]
    return sorted(advice, key=lambda one: -(one.gain.seconds_per_frame or 0.0 if one.gain else 0.0))


def _verdicts(gpus: Sequence[GpuTrace]) -> Iterator[Verdict]:
    told: list[GpuTrace] = []
    for gpu in gpus:
        alike = next((other for other in told if _same(gpu, other)), None)
        told.append(gpu)
        headline = f"The same as {alike.label}" if alike else _ceiling(gpu)
        yield Verdict(
            basis="measured",
            tone="clear",
            device=words.name(" ".join(filter(None, (gpu.label, gpu.name and f"({gpu.name})"))), 60),
            headline=headline,
            remark="" if alike else _parts(gpu),
            reason="" if alike else " ".join(_copying(gpu)),
        )


def _same(one: GpuTrace, other: GpuTrace) -> bool:
    figures = [
        (gpu.units, gpu.seconds, gpu.copy_seconds, gpu.kernel_seconds, gpu.idle_seconds)
        for gpu in (one, other)
    ]
    near = all(abs(a - b) <= _NEAR * one.seconds for a, b in zip(figures[0][1:], figures[1][1:], strict=True))
    flows = [{(f.kind, f.memory, f.small, f.count) for f in gpu.flows or ()} for gpu in (one, other)]
    return near and figures[0][0] == figures[1][0] and flows[0] == flows[1]


def _ceiling(gpu: GpuTrace) -> str:
    if gpu.ceiling is None:
        return ""
    most, whole = units.seconds(gpu.ceiling.seconds / gpu.units), units.seconds(gpu.seconds / gpu.units)
    of = f"a frame of {whole}" if gpu.frames else whole
    return f"Memory can change at most {most} of {of} ({units.percent(gpu.ceiling.share)})"


def _parts(gpu: GpuTrace) -> str:
    """ "28 frames, 95 % of them alike, by their uploads: 97 % upload, 2 % kernels." """
    shares = [
        *(
            (f"{_WAYS[way]}", sum(f.exposed_seconds for f in gpu.flows or () if f.kind == way))
            for way in _WAYS
        ),
        ("migration", gpu.managed.exposed_seconds if gpu.managed else 0.0),
        ("kernels", gpu.kernel_seconds),
        ("idle", gpu.idle_seconds),
    ]
    listed = ", ".join(f"{units.percent(s / gpu.seconds)} {n}" for n, s in shares if s >= 0.005 * gpu.seconds)
    if gpu.frames is None:
        return f"No frames found, so from first to last: {listed}."
    frames = gpu.frames
    count = f"{frames.count} frames"
    if frames.steady_count < frames.count:
        count += f", {frames.steady_count} of them steady"
    how = _FOUND.get(frames.source) or f"range {words.name(frames.name)}"
    return f"{count} ({how}; {units.percent(frames.alike)} alike): {listed}."


def _copying(gpu: GpuTrace) -> Iterator[str]:
    for flow in [f for f in gpu.flows or () if not f.small][:2]:
        often = f"{words.count(round(flow.count / gpu.units), _WAYS[flow.kind])}" + (
            " a frame" if gpu.frames else ""
        )
        link = gpu.links.get(_LINKS.get(flow.kind, ""))
        best = f" ({units.rate(link.bytes_per_second)} possible)" if link else ""
        mean = units.size(flow.bytes / flow.count)
        yield f"{often} of {mean}, {flow.memory}, {units.rate(flow.bytes_per_second or 0.0)}{best}."
    if gpu.copy_seconds > 0.01 * gpu.seconds and gpu.kernel_seconds:
        yield f"{units.percent(gpu.hidden_seconds / gpu.copy_seconds)} of the copies' time beside kernels."


def _advised(program: ProgramTrace) -> Iterator[Fact]:
    for rule, advice in words.grouped(_fired(program), lambda one: one.rule).items():
        places = words.listing(dict.fromkeys(one.device for one in advice))
        where = f", {places}" if len(program.gpus) > 1 else ""
        yield Fact(advice[0].title, f"{_saves(program, advice[0]) or 'no gain from memory'} ({rule}{where})")
    for question in program.questions:
        yield Fact("Ask", question)


def _saves(program: ProgramTrace, advice: Advice) -> str:
    if advice.gain is None or advice.gain.seconds_per_frame is None:
        return ""
    gpu = next((gpu for gpu in program.gpus if gpu.label == advice.device), program.gpus[0])
    each = " a frame" if gpu.frames else ""
    return f"at most {units.seconds(advice.gain.seconds_per_frame)}{each}"


def _findings(program: ProgramTrace, *, fired: bool) -> tuple[Finding, ...]:
    advice = _fired(program) if fired else [one for one in program.advice if one.outcome != "advice"]
    return tuple(
        Finding(
            rule=one.rule,
            outcome=one.outcome,
            title=one.title,
            detail=words.line(one.detail, 600),
            devices=(one.device,),
            gain=_saves(program, one),
            evidence=tuple(Fact(e.label, _value(e)) for e in one.evidence),
            sources=one.sources,
        )
        for one in advice
    )


def _value(evidence: Evidence) -> str:
    write = {"seconds": units.seconds, "bytes": units.size, "bytes_per_second": units.rate}
    return write.get(evidence.unit, units.digits)(evidence.value)


def _drawn(gpus: Sequence[GpuTrace]) -> GpuTrace | None:
    """The GPU whose frame is drawn: that which memory can change most."""
    having = [gpu for gpu in gpus if gpu.timeline]
    return max(having, key=lambda gpu: gpu.ceiling.seconds if gpu.ceiling else 0.0, default=None)


def _gpu_section(gpu: GpuTrace, *, first: bool) -> Section:
    picture: list[Block] = []
    if first and isinstance(gpu.timeline, Timeline) and gpu.frames:
        picture = [timeline_view(gpu.label, median(gpu.frames.steady), gpu.timeline, _ONE)]
    inside = filled(
        *picture,
        blocks.Facts(tuple(_time(gpu)), f"{gpu.label}: time{' per frame' if gpu.frames else ''}"),
        _copies(gpu, gpu.flows or (), f"Copies{' in the steady frames' if gpu.frames else ''}"),
        blocks.Facts(tuple(_host(gpu)), f"CUDA calls of the host{', per frame' if gpu.frames else ''}"),
        blocks.Facts(tuple(_managed(gpu)), "Managed memory" + (", per frame" if gpu.frames else "")),
        blocks.Fold("Before and between the frames", filled(_copies(gpu, gpu.set_up, ""))),
        blocks.Fold("Streams and kernels", filled(blocks.Facts(tuple(_streams(gpu))))),
    )
    anchor = gpu.label.lower().replace(" ", "-").replace("(", "").replace(")", "")
    return Section(anchor, gpu.label, inside, nav=gpu.label)


def _time(gpu: GpuTrace) -> Iterator[Fact]:
    parts: list[tuple[str, float | None]] = [
        ("kernels and work on the device", gpu.kernel_seconds),
        ("copies", gpu.copy_seconds),
        ("of these, beside kernels", gpu.hidden_seconds),
        ("idle", gpu.idle_seconds),
        ("idle, the host in a call that copies, waits, allocates or page-locks", gpu.idle_in_calls_seconds),
        ("idle, the host in no CUDA call", gpu.outside_seconds),
    ]
    for label, value in parts:
        if value is not None:
            yield Fact(label, f"{units.seconds(value / gpu.units)} ({units.percent(value / gpu.seconds)})")
    if gpu.frames:
        yield Fact("median frame", units.seconds(median(gpu.frames.steady)))
        for label, sizes in (("uploads", gpu.frames.uploads), ("downloads", gpu.frames.downloads)):
            if sizes:
                each = ", ".join(f"{count} × {units.size(size)}" for size, count in sizes)
                yield Fact(f"{label} of a frame", each)


_COPY_COLUMNS = (
    Column("copies"),
    Column("bytes"),
    Column("rate"),
    Column("possible"),
    Column("time"),
    Column("beside kernels"),
    Column("called from", figures=False),
)


def _copies(gpu: GpuTrace, flows: Sequence[Flow], title: str) -> Table:
    columns = _COPY_COLUMNS if any(flow.where for flow in flows) else _COPY_COLUMNS[:-1]
    rows = tuple(
        Row(
            f"{_WAYS[flow.kind]}, {flow.memory}{', up to 64 KiB' if flow.small else ''}",
            tuple(_cells(gpu, flow))[: len(columns)],
        )
        for flow in flows
    )
    return Table(
        kind="copies",
        names="direction and host memory",
        columns=columns,
        rows=rows,
        caption=title,
        title=title,
        label=title or "Other copies",
        identifier=f"copies-{gpu.label.replace(' ', '-')}-{bool(title)}",
        codes=False,
    )


def _cells(gpu: GpuTrace, flow: Flow) -> Iterator[TableCell]:
    link = gpu.links.get(_LINKS.get(flow.kind, ""))
    yield TableCell(str(flow.count), sort=flow.count)
    yield TableCell(units.size(flow.bytes), sort=flow.bytes)
    yield TableCell(units.rate(flow.bytes_per_second) if flow.bytes_per_second else blocks.NOTHING)
    yield TableCell(units.rate(link.bytes_per_second) if link and not flow.small else blocks.NOTHING)
    yield TableCell(units.seconds(flow.seconds), sort=flow.seconds)
    yield TableCell(units.percent(flow.hidden_seconds / flow.seconds) if flow.seconds else blocks.NOTHING)
    yield TableCell(words.line(flow.where or "", 60))


def _host(gpu: GpuTrace) -> Iterator[Fact]:
    for each in gpu.host or ():
        count, lasted = units.digits(each.count / gpu.units), units.seconds(each.seconds / gpu.units)
        idle = f"; the GPU idle for {units.seconds(each.idle_seconds / gpu.units)}" * bool(each.idle_seconds)
        where = f"; called from {words.line(each.where, 60)}" if each.where else ""
        yield Fact(_HOST[each.work], f"{count} calls, {lasted}{idle}{where}")


def _managed(gpu: GpuTrace) -> Iterator[Fact]:
    moved = gpu.managed
    if moved is None:
        return
    for each in moved.migrations:
        size = units.size(each.bytes / gpu.units)
        count = units.digits(each.count / gpu.units)
        yield Fact(f"{each.direction}, {each.cause or 'cause unknown'}", f"{size} in {count} moves")
    if moved.bouncing_ranges is not None and moved.bouncing_bytes is not None:
        size = units.size(moved.bouncing_bytes / gpu.units)
        yield Fact("both ways in every frame", f"{moved.bouncing_ranges} ranges of 2 MiB, {size}")
    for who, faults in (("CPU", moved.cpu_page_faults), ("GPU", moved.gpu_page_faults)):
        if faults is not None:
            yield Fact(f"page faults by the {who}", units.digits(faults / gpu.units))


def _streams(gpu: GpuTrace) -> Iterator[Fact]:
    for stream in gpu.streams:
        copies, kernels = units.seconds(stream.copy_seconds), units.seconds(stream.kernel_seconds)
        yield Fact(f"stream {stream.number}", f"kernels {kernels}, copies {copies}")
    for kernel in gpu.kernels:
        seconds = units.seconds(kernel.seconds)
        yield Fact(words.name(kernel.name), f"{seconds}, {words.count(kernel.count, 'run')}")


def _ranges(program: ProgramTrace) -> Iterator[Fact]:
    if program.ranges and not any(g.frames and g.frames.source == "nvtx" for g in program.gpus):
        names = ", ".join(f"{words.name(name)} ({count} times)" for name, count in program.ranges[:4])
        yield Fact("NVTX ranges that could mark a frame (--frame NAME)", names)
