"""The page of a report of any program: what memory can change, the advice, then each GPU's figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import starmap

from advisor import units
from advisor.profiles.conclusions import Advice
from advisor.profiles.programs import Flow, GpuTrace, ProgramTrace
from advisor.profiles.traces import Timeline
from advisor.report import blocks, words
from advisor.report.advising import finding
from advisor.report.blocks import Block, Column, Fact, Finding, Table, TableCell, Verdict, row
from advisor.report.page import Page, Section, filled, lead
from advisor.report.records import flows_of
from advisor.report.timelines import timeline_view
from advisor.rules.report_rules import CALLED

SLOWER = (
    "Recording usually slows a program; these times are the report's own. What memory can change excludes "
    "waiting for kernels, and two costs that a report does not show: the time that other lines lose to "
    "copies, and kernels that read host memory in place."
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
    "uploads by size": "by the sizes of their uploads, approximately",
    "downloads": "by their downloads",
}
_ONE = "Recorded by nsys: one of the steady frames"
_LITTLE = ("pageable-transfer", "page-fault-migration")
"""Rules that the page names also where they find something too small for advice."""
_NEAR = 0.05
"""Figures of two GPUs count as the same if they differ by at most this share."""
_HARDLY = 0.001
"""Least share of the busiest GPU's work to be shown: frameworks make a context on other GPUs too."""


def program_page(program: ProgramTrace, name: str, notes: Sequence[str]) -> Page:
    """The page of an nsys report whose advice is already decided."""
    fired, most = _fired(program), max((_worked(gpu) for gpu in program.gpus), default=0.0)
    gpus = [gpu for gpu in program.gpus if _worked(gpu) >= _HARDLY * most]
    quiet = [one for one in program.advice if one.outcome != "advice"]
    nothing = "" if fired else "No rule for reports gives advice."
    if not gpus:
        nothing = "The report contains no GPU work, so there is nothing to analyze."
    pictured = [gpu for gpu in gpus if gpu.timeline]  # drawn is the GPU that memory can change most
    drawn = max(pictured, key=lambda gpu: gpu.ceiling.seconds if gpu.ceiling else 0.0, default=None)
    questions = blocks.Bullets(tuple(map(words.line, program.questions)))
    advice = blocks.Findings(_findings(program, fired)), questions
    absent = tuple(starmap(Fact, program.absent.items()))
    marked = any(g.frames and g.frames.source == "nvtx" for g in program.gpus)
    could_mark = () if marked else program.ranges[:4]
    ranges = ", ".join(f"{words.name(name)} ({count} times)" for name, count in could_mark)
    idle = tuple(Fact(g.label, units.seconds(_worked(g))) for g in program.gpus if g not in gpus)
    limits = (
        blocks.Facts(absent, "Not recorded (option of nsys profile that does):"),
        blocks.Facts((Fact("NVTX ranges that could mark a frame (--frame NAME)", ranges),) * bool(ranges)),
        blocks.Facts(idle, "GPUs with hardly any work:"),
        blocks.Fold("Rules without advice", filled(blocks.Findings(_findings(program, quiet)))),
        blocks.Prose(SLOWER),
    )
    sections = (
        lead(
            blocks.Banners("note", tuple(map(words.line, notes))),
            blocks.Verdicts(tuple(_verdicts(gpus)), named=True),
            blocks.Facts(tuple(_advised(program)), "Advice:", forms="md txt"),
            blocks.Prose(nothing),
            title="What memory can change",
        ),
        Section("advice", "Advice", filled(*advice), nav="Advice", forms="html"),
        *(_gpu_section(gpu, first=gpu is drawn) for gpu in gpus),
        Section("more", "Not found and not recorded", filled(*limits), nav="Limits", brief=True, closed=True),
    )
    return Page(kind="trace", brand="trace", name=name, sections=sections, records=flows_of(gpus))


def _worked(gpu: GpuTrace) -> float:
    return gpu.seconds - gpu.idle_seconds


def _fired(program: ProgramTrace) -> list[Advice]:
    advice = [one for one in program.advice if one.outcome == "advice"]
    return sorted(advice, key=lambda one: -(one.gain.seconds_per_frame or 0.0 if one.gain else 0.0))


def _verdicts(gpus: Sequence[GpuTrace]) -> Iterator[Verdict]:
    for i, gpu in enumerate(gpus):
        device = words.name(f"{gpu.label} ({gpu.name})" if gpu.name else gpu.label, 60)
        alike = next((other for other in gpus[:i] if _same(gpu, other)), None)
        if alike:
            yield Verdict("measured", "clear", device, f"The same as {alike.label}")
        else:
            headline, reason = "", " ".join(_copying(gpu))
            if gpu.ceiling:
                most, whole = (units.seconds(s / gpu.units) for s in (gpu.ceiling.seconds, gpu.seconds))
                of = f"a frame of {whole}" if gpu.frames else whole
                headline = f"Memory can change about {most} of {of} ({units.percent(gpu.ceiling.share)})"
            yield Verdict("measured", "clear", device, headline, reason, remark=_parts(gpu))


def _same(one: GpuTrace, other: GpuTrace) -> bool:
    times = ("seconds", "copy_seconds", "kernel_seconds", "collective_seconds", "idle_seconds")
    near = all(abs(getattr(one, t) - getattr(other, t)) <= _NEAR * one.seconds for t in times)
    flows = [{(f.kind, f.memory, f.small, f.count) for f in gpu.flows or ()} for gpu in (one, other)]
    return near and one.units == other.units and flows[0] == flows[1]


def _parts(gpu: GpuTrace) -> str:
    """ "28 frames, 95 % of them alike, by their uploads: 97 % upload, 2 % kernels." """
    flows = {way: [flow for flow in gpu.flows or () if flow.kind == way] for way in _WAYS}
    shares = []
    for way, same in ((way, same) for way, same in flows.items() if same):
        memory = {f.memory for f in same if not f.small and f.kind in _LINKS} - {"unknown"}
        name = " ".join((*(memory if len(memory) == 1 else ()), _WAYS[way]))  # pinned upload
        shares.append((name, sum(flow.exposed_seconds for flow in same)))
    shares += [
        ("migration", gpu.managed.exposed_seconds if gpu.managed else 0.0),
        ("kernels", gpu.kernel_seconds - gpu.collective_seconds),
        ("NCCL", gpu.collective_seconds),
        ("idle", gpu.idle_seconds),
    ]
    listed = ", ".join(f"{units.percent(s / gpu.seconds)} {n}" for n, s in shares if s >= 0.005 * gpu.seconds)
    frames = gpu.frames
    if gpu.host is None:
        listed += ". The host's calls are not in the report, so all idle time is in what memory can change"
    if frames is None:
        return f"No frames found, so from first to last: {listed}."
    some = f", {frames.steady_count} of them steady" if frames.steady_count < frames.count else ""
    alike = "all" if frames.alike == 1 else units.percent(frames.alike)
    how = _FOUND.get(frames.source) or f"by the range {words.name(frames.name)}"
    return f"{frames.count} frames{some} (found {how}; {alike} alike): {listed}."


def _copying(gpu: GpuTrace) -> Iterator[str]:
    each = " a frame" if gpu.frames else ""
    for flow in [f for f in gpu.flows or () if not f.small][:2]:
        often = flow.count / gpu.units
        number = words.count(round(often), _WAYS[flow.kind])
        if not round(often):
            number = f"{units.digits(often, 2)} {words.plural(_WAYS[flow.kind])}"
        link = gpu.links.get(_LINKS.get(flow.kind, ""))
        best = f" ({units.rate(link.bytes_per_second)} possible)" if link else ""
        mean, rate = units.size(flow.bytes / flow.count), units.rate(flow.bytes_per_second or 0.0)
        staged = flow.staging_seconds >= _NEAR * flow.seconds
        call = f", and {units.seconds(flow.staging_seconds / flow.calls)} in its call" * staged
        yield f"{number}{each} of {mean}, {flow.memory}, {rate}{best}{call}."
    if gpu.copy_seconds > 0.01 * gpu.seconds and gpu.kernel_seconds:
        hidden, both = gpu.hidden_seconds / gpu.copy_seconds, (gpu.both_seconds or 0.0) / gpu.copy_seconds
        ways = f", {units.percent(both)} in both directions at once" if both >= 0.005 else ""
        yield f"{units.percent(hidden)} of the copies' time overlaps kernels{ways}."


def _advised(program: ProgramTrace) -> Iterator[Fact]:
    for rule, advice in words.grouped(_fired(program), lambda one: one.rule).items():
        places = words.listing(sorted({one.device for one in advice}))
        where = f", {places}" if len(program.gpus) > 1 else ""
        saves = _saves(program, advice[0])
        called = advice[0].detail.partition(CALLED)
        origin = f"; {called[1].lower()}{words.line(called[2].rstrip('.'), 60)}" if called[1] else ""
        yield Fact(advice[0].title, f"{saves} ({rule}{where}){origin}")
    for one in program.advice:
        if one.rule in _LITTLE and one.outcome == "pass" and any(e.value for e in one.evidence):
            yield Fact("Too little for advice", f"{words.line(one.detail.rstrip('.'))} ({one.rule})")
    for question in program.questions:
        yield Fact("Ask", question)


def _saves(program: ProgramTrace, advice: Advice) -> str:
    if advice.gain is None or advice.gain.seconds_per_frame is None:
        if advice.outcome != "advice":
            return ""
        return "no gain from memory" if advice.rule == "host-bound-frame" else "already counted above"
    gpu = next((gpu for gpu in program.gpus if gpu.label == advice.device), program.gpus[0])
    return f"at most {units.seconds(advice.gain.seconds_per_frame)}{' a frame' if gpu.frames else ''}"


def _findings(program: ProgramTrace, advice: Iterable[Advice]) -> tuple[Finding, ...]:
    """Findings, with advice for GPUs that do the same given once."""
    pairs = ((gpu, other) for gpu in program.gpus for other in reversed(program.gpus))
    alike = {gpu.label: other.label for gpu, other in pairs if _same(gpu, other)}
    several = words.grouped(advice, lambda one: (one.rule, one.outcome, alike.get(one.device, one.device)))
    ordered = [sorted(those, key=lambda one: one.device) for those in several.values()]
    return tuple(replace(finding(those), gain=_saves(program, those[0])) for those in ordered)


def _gpu_section(gpu: GpuTrace, *, first: bool) -> Section:
    picture: list[Block] = []
    if first and isinstance(gpu.timeline, Timeline) and gpu.frames:
        how = f"{_ONE}, of {units.seconds(gpu.seconds / gpu.units)} on average."
        picture = [timeline_view(gpu.label, 0.0, gpu.timeline, how)]
    each, steady = (" per frame", " in the steady frames") if gpu.frames else ("", "")
    inside = filled(
        *picture,
        blocks.Facts(tuple(_time(gpu)), f"{gpu.label}: time{each}"),
        _copies(gpu, gpu.flows or (), f"Copies{steady}"),
        blocks.Facts(tuple(_host(gpu)), f"CUDA calls of the host{each and ','}{each}"),
        blocks.Facts(tuple(_managed(gpu)), f"Managed memory{each and ','}{each}"),
        blocks.Fold("Before and between the frames", filled(_copies(gpu, gpu.set_up, ""))),
        blocks.Fold("Streams and kernels", filled(blocks.Facts(tuple(_streams(gpu))))),
    )
    anchor = gpu.label.lower().replace(" ", "-").replace("(", "").replace(")", "")
    return Section(anchor, gpu.label, inside, nav=gpu.label)


def _time(gpu: GpuTrace) -> Iterator[Fact]:
    parts: list[tuple[str, float | None]] = [
        ("kernels and work on the device", gpu.kernel_seconds),
        ("of these, only NCCL's kernels", gpu.collective_seconds or None),
        ("copies", gpu.copy_seconds),
        ("of these, overlapping kernels", gpu.hidden_seconds),
        ("idle", gpu.idle_seconds),
        ("idle, the host in a call that copies, waits, allocates or page-locks", gpu.idle_in_calls_seconds),
        ("idle, the host in no CUDA call and no other GPU at work", gpu.outside_seconds),
    ]
    for label, value in parts:
        if value is not None:
            yield Fact(label, f"{units.seconds(value / gpu.units)} ({units.percent(value / gpu.seconds)})")
    if gpu.frames:
        for label, sizes in (("uploads", gpu.frames.uploads), ("downloads", gpu.frames.downloads)):
            if sizes:
                each = ", ".join(f"{count} × {units.size(size)}" for size, count in sizes)
                yield Fact(f"{label} of a frame", each)


def _copies(gpu: GpuTrace, flows: Sequence[Flow], title: str) -> Table:
    heads = ("copies", "bytes", "rate", "possible", "time", "overlapped")
    called = [Column("called from", figures=False)] * any(flow.where for flow in flows)
    rows = []
    for flow in flows:
        name = f"{_WAYS[flow.kind]}, {flow.memory}{', up to 64 KiB' if flow.small else ''}"
        link = gpu.links.get(_LINKS.get(flow.kind, "")) if not flow.small else None
        cells = (
            TableCell(str(flow.count), sort=flow.count),
            TableCell(units.size(flow.bytes), sort=flow.bytes),
            units.rate(flow.bytes_per_second) if flow.bytes_per_second else blocks.NOTHING,
            units.rate(link.bytes_per_second) if link else blocks.NOTHING,
            TableCell(units.seconds(flow.seconds), sort=flow.seconds),
            units.percent(flow.hidden_seconds / flow.seconds) if flow.seconds else blocks.NOTHING,
        )
        rows.append(row(name, *cells, *[words.line(flow.where or "", 60)] * len(called)))
    table = Table(
        "copies", "direction and host memory", (*map(Column, heads), *called), tuple(rows), title, title
    )
    return replace(table, label="" if title else "Other copies", codes=False)


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
        size, count = units.size(each.bytes / gpu.units), units.digits(each.count / gpu.units)
        yield Fact(f"{each.direction}, {each.cause or 'cause unknown'}", f"{size} in {count} moves")
    if moved.bouncing_ranges is not None and moved.bouncing_bytes is not None:
        size = units.size(moved.bouncing_bytes / gpu.units)
        yield Fact("both ways in every frame", f"{moved.bouncing_ranges} ranges of 2 MiB, {size}")
    for who, faults in (("CPU", moved.cpu_page_faults), ("GPU", moved.gpu_page_faults)):
        if faults is not None:
            yield Fact(f"page faults by the {who}", units.digits(faults / gpu.units))


def _streams(gpu: GpuTrace) -> Iterator[Fact]:
    for each in gpu.streams:
        times = f"kernels {units.seconds(each.kernel_seconds)}, copies {units.seconds(each.copy_seconds)}"
        yield Fact(f"stream {each.number}", times)
    for kernel in gpu.kernels:
        seconds = units.seconds(kernel.seconds)
        yield Fact(words.name(kernel.name), f"{seconds}, {words.count(kernel.count, 'run')}")
