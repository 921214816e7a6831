"""Each rule judged on an Nsight Systems report. Gains are estimates, at most what the advice can save."""

from __future__ import annotations

from collections.abc import Callable

from advisor import units
from advisor.profiles.conclusions import Evidence, Gain
from advisor.profiles.programs import SMALL, Flow, GpuTrace, Managed
from advisor.rules.base import Finding, Limits, not_applicable, passed
from advisor.rules.registry import by_id

UP, DOWN, PEER = "host-to-device", "device-to-host", "peer-to-peer"
_LINKS = {UP: "to-device", DOWN: "to-host"}
_NO_COPIES = "nsys recorded no copies and no kernels"
_NO_CALLS = "The report has no CUDA calls of the host (--trace=cuda)."
_NO_FRAMES = "No frames were found; name an NVTX range with --frame."
_CALL_SECONDS = 5e-6
"""What the call of the smallest copy takes at least: 5 to 7 µs (arXiv 2602.21548)."""
_FAULT_SECONDS = 50e-6
"""A page fault takes 10 to 50 µs (ObservUVM)."""
_SLOW = 0.75
"""Of the best rate: a link of half the lanes or an older generation is at 0.5, a whole one at 1."""
_OVERLAPPED = 0.5
"""The share of the copies that runs beside kernels from which they are overlapped already: a choice."""
_MOSTLY = 0.5


def stopped(moved: Managed) -> float:
    """Kernels in which pages moved by faults, and the host at its own faults."""
    to_host = sum(m.count for m in moved.migrations if m.direction == "to-host" and m.cause == "page fault")
    faults = to_host if moved.cpu_page_faults is None else moved.cpu_page_faults
    return (moved.stalled_seconds if moved.by_fault() else 0.0) + faults * _FAULT_SECONDS


def _found(
    gpu: GpuTrace, detail: str, *evidence: Evidence, saved: float | None, title: str | None = None
) -> Finding:
    """Advice. saved: at most, over all frames."""
    worth = None
    if saved is not None:
        worth = Gain(seconds_per_frame=saved / gpu.units, bytes=None, basis="estimated")
    return Finding("advice", detail, title, evidence=evidence, gain=worth)


def _time(label: str, seconds: float, gpu: GpuTrace) -> Evidence:
    return Evidence(label=f"{label}{_each(gpu)}", value=seconds / gpu.units, unit="seconds")


def _number(label: str, count: float, gpu: GpuTrace) -> Evidence:
    return Evidence(label=f"{label}{_each(gpu)}", value=count / gpu.units, unit="count")


def _each(gpu: GpuTrace) -> str:
    return ", per frame" if gpu.frames else ""


def _a_frame(gpu: GpuTrace) -> str:
    return " a frame" if gpu.frames else ""


def _of(gpu: GpuTrace, seconds: float) -> str:
    """ "1.20 ms of each frame (12 %)" """
    what = "each frame" if gpu.frames else "the run"
    return f"{units.seconds(seconds / gpu.units)} of {what} ({units.percent(seconds / gpu.seconds)})"


def _by(*places: str | None) -> str:
    """Where the calls come from, if the report has backtraces."""
    names = list(dict.fromkeys(filter(None, places)))
    return f" Called from {', '.join(names)}." if names else ""


def _moved(flows: list[Flow], gpu: GpuTrace) -> str:
    return units.size(sum(flow.bytes for flow in flows) / gpu.units)


def exposed(flows: list[Flow]) -> float:
    return sum(flow.exposed_seconds for flow in flows)


def pageable_transfer(gpu: GpuTrace, limit: Limits) -> Finding:
    if gpu.flows is None:
        return not_applicable(f"{_NO_COPIES}.")
    if gpu.flows and all(flow.memory == "unknown" for flow in gpu.flows):
        return not_applicable("The export does not tell the kind of host memory of any copy.")
    flows = [f for way in _LINKS for f in gpu.copies(way, "pageable")]
    seconds = exposed(flows)
    shown = _time("copies from and to pageable memory", seconds, gpu)
    if seconds < limit["share"] * gpu.seconds:
        return passed(f"Copies of pageable memory above 64 KiB take {_of(gpu, seconds)}.", shown)
    best = [_best(gpu, flow.kind) for flow in flows]
    saved = sum(
        max(flow.exposed_seconds - flow.bytes / rate[0], 0.0) if rate else flow.exposed_seconds
        for flow, rate in zip(flows, best, strict=True)
    )
    rates = ", ".join(
        f"{units.rate(flow.bytes_per_second or 0)} {_LINKS[flow.kind].replace('-', ' the ')}"
        + (f" (page-locked: {units.rate(rate[0])}, {rate[1]})" if rate else "")
        for flow, rate in zip(flows, best, strict=True)
    )
    return _found(
        gpu,
        f"{_moved(flows, gpu)} from or to pageable memory take {_of(gpu, seconds)}: {rates}. The driver "
        f"stages them, and the host waits.{_by(*(flow.where for flow in flows))}",
        shown,
        saved=saved,
    )


def _best(gpu: GpuTrace, kind: str) -> tuple[float, str] | None:
    """The rate of page-locked copies: as this report has them, or of the device; the higher."""
    own = (flow.best_bytes_per_second for flow in gpu.copies(kind, "pinned"))
    rates = [(rate, "in this report") for rate in own if rate]
    if link := gpu.links.get(_LINKS[kind]):
        rates.append((link.bytes_per_second, link.source))
    return max(rates, default=None)


def small_transfers(gpu: GpuTrace, limit: Limits) -> Finding:
    if gpu.flows is None:
        return not_applicable(f"{_NO_COPIES}.")
    flows = [f for way in _LINKS for f in gpu.flows if f.small and f.kind == way]
    count = sum(flow.count for flow in flows)
    call = gpu.host_time("copies")
    alone = call and call.count and not any(not flow.small for flow in gpu.flows)
    each = max(_CALL_SECONDS, call.seconds / call.count if call and alone else 0.0)
    spared = max(count - len({flow.kind for flow in flows}) * gpu.units, 0)
    shown = (_number("copies of at most 64 KiB", count, gpu), _time("their calls", count * each, gpu))
    if spared * each < limit["share"] * gpu.seconds or count < 2 * gpu.units:
        return passed(f"Copies of at most {units.size(SMALL)} cost {_of(gpu, count * each)}.", *shown)
    mean = units.size(sum(flow.bytes for flow in flows) / count)
    return _found(
        gpu,
        f"{count / gpu.units:.3g} copies{_a_frame(gpu)} of {mean} on average, {units.seconds(each)} a call: "
        f"{_of(gpu, count * each)}. One copy in each direction would do.{_by(*(f.where for f in flows))}",
        *shown,
        saved=spared * each,
    )


def serial_copies(gpu: GpuTrace, limit: Limits) -> Finding:
    if gpu.shares_dram:
        return not_applicable(by_id("serial-copies").text.elsewhere)
    if gpu.flows is None:
        return not_applicable(f"{_NO_COPIES}.")
    copies = gpu.copy_seconds - gpu.hidden_seconds
    kernels = gpu.kernel_seconds - gpu.hidden_seconds
    kernels = max(kernels - gpu.managed.stalled_seconds, 0.0) if gpu.managed else kernels
    saved = min(copies, kernels)
    shown = (_time("copies beside no kernel", copies, gpu), _time("kernels beside no copy", kernels, gpu))
    if gpu.hidden_seconds >= _OVERLAPPED * gpu.copy_seconds > 0:
        return passed(
            f"{units.percent(gpu.hidden_seconds / gpu.copy_seconds)} of the copies overlap.", *shown
        )
    if saved < limit["share"] * gpu.seconds:
        return passed(f"Overlapping copies and kernels would save at most {_of(gpu, saved)}.", *shown)
    pageable = any(flow.memory == "pageable" and not flow.small for flow in gpu.flows)
    return _found(
        gpu,
        f"Copies ({units.seconds(copies / gpu.units)}) and kernels ({units.seconds(kernels / gpu.units)}) "
        f"run one after another. Overlapped they save at most {_of(gpu, saved)}."
        + " Copies of pageable memory cannot overlap: page-lock it first."
        * pageable,
        *shown,
        saved=saved,
    )


def link_below_best(gpu: GpuTrace, limit: Limits) -> Finding:
    if gpu.shares_dram:
        return not_applicable("CPU and GPU share one DRAM.")
    flows = [f for way in _LINKS for f in gpu.copies(way, "pinned") if f.best_bytes_per_second]
    if not flows:
        return not_applicable("No page-locked copies of 1 MiB and more were recorded.")
    known = [(flow, gpu.links[_LINKS[flow.kind]]) for flow in flows if _LINKS[flow.kind] in gpu.links]
    if not known:
        return not_applicable(f"The catalogue has no copy rate of {gpu.name or 'this GPU'}.")
    told = {
        f"{'uploads' if f.kind == UP else 'downloads'} at {units.rate(f.best_bytes_per_second or 0)}, "
        f"{units.rate(link.bytes_per_second)} possible ({link.source})": (f, link)
        for f, link in known
    }
    slow = {
        said: (f, link)
        for said, (f, link) in told.items()
        if (f.best_bytes_per_second or 0) < _SLOW * link.bytes_per_second
    }
    took = exposed([flow for flow, _ in slow.values()])
    shown = _time("copies over the slow link", took, gpu)
    if not slow or took < limit["share"] * gpu.seconds:
        return passed(f"Page-locked copies: {', '.join(told)}; {_of(gpu, took)}.", shown)
    saved = sum(max(f.exposed_seconds - f.bytes / link.bytes_per_second, 0.0) for f, link in slow.values())
    return _found(
        gpu,
        f"Not even the fastest page-locked copy reaches the link's rate: {', '.join(slow)}. Check its lanes "
        "and generation (`nvidia-smi -q`, under load), whether several GPUs share it, and the NUMA node.",
        shown,
        saved=saved,
        title="Find why the link runs below its rate",
    )


def pin_per_frame(gpu: GpuTrace, limit: Limits) -> Finding:
    if gpu.host is None:
        return not_applicable(_NO_CALLS)
    if gpu.frames is None:
        return not_applicable(_NO_FRAMES)
    locks, makes = gpu.host_time("page-locking"), gpu.host_time("allocation")
    often = [each for each in (locks, makes) if each and each.count >= limit["calls"] * gpu.units]
    shown = [
        item
        for each, name in ((locks, "page-locking calls"), (makes, "allocations and frees"))
        if each
        for item in (_number(name, each.count, gpu), _time(f"time in {name}", each.seconds, gpu))
    ]
    allocating = sum(each.seconds for each in often if each is makes)
    if not often or (locks not in often and allocating < 0.1 * gpu.seconds):
        return passed("No frame page-locks memory, and allocations take little of it.", *shown)
    saved = sum(each.seconds for each in often)
    what = " and ".join(
        f"{each.count / gpu.units:.3g} {'page-locking' if each is locks else 'cudaMalloc and cudaFree'} calls"
        for each in often
    )
    return _found(
        gpu,
        f"Each frame makes {what}, {_of(gpu, saved)}. Do it once, before the frames."
        + _by(*(each.where for each in often)),
        *shown,
        saved=saved,
        title=None if locks in often else "Allocate once, before the frames, not in every frame",
    )


def page_fault_migration(gpu: GpuTrace, limit: Limits) -> Finding:
    moved = gpu.managed
    if moved is None:
        return not_applicable("nsys recorded no migration of managed memory on this GPU.")
    seconds = min(moved.exposed_seconds * moved.by_fault() + stopped(moved), gpu.seconds)
    shown = [
        _time("migrations that no prefetch asked for", moved.seconds * moved.by_fault(), gpu),
        _time("at most, with what they stop", seconds, gpu),
    ]
    for who, faults in (("CPU", moved.cpu_page_faults), ("GPU", moved.gpu_page_faults)):
        shown += [] if faults is None else [_number(f"page faults by the {who}", faults, gpu)]
    if seconds < limit["share"] * gpu.seconds:
        return passed(f"Migrations by page faults cost at most {_of(gpu, seconds)}.", *shown)
    return _found(
        gpu,
        f"{units.size(moved.bytes / gpu.units)} of managed memory{_a_frame(gpu)} migrate by page "
        "faults and what the driver fetches around them. With the kernels and host code that wait for pages, "
        f"that is at most {_of(gpu, seconds)}. Prefetch to the side that uses them next, or copy.",
        *shown,
        saved=seconds,
    )


def ping_pong_migration(gpu: GpuTrace, _: Limits) -> Finding:
    moved = gpu.managed
    if moved is None:
        return not_applicable("nsys recorded no migration of managed memory on this GPU.")
    if moved.bouncing_bytes is None:
        return not_applicable("The report has no addresses of migrations, or nothing migrated.")
    most = moved.exposed_seconds + stopped(moved)
    seconds = min(most, gpu.seconds) * moved.bouncing_bytes / max(moved.bytes, 1)
    shown = (
        Evidence(label="ranges of 2 MiB that go both ways", value=moved.bouncing_ranges or 0, unit="count"),
        Evidence(
            label="bytes moved in them, per frame", value=moved.bouncing_bytes / gpu.units, unit="bytes"
        ),
    )
    share = by_id("page-fault-migration").text.thresholds[0].default
    if not moved.bouncing_ranges or seconds < share * gpu.seconds:
        return passed(f"Ranges that go both ways in every frame take {_of(gpu, seconds)}.", *shown)
    return _found(
        gpu,
        f"{moved.bouncing_ranges} ranges of 2 MiB go to the GPU and back in every frame: "
        f"{units.size(moved.bouncing_bytes / gpu.units)}, at most {_of(gpu, seconds)}.",
        *shown,
        saved=seconds,
    )


def implicit_wait(gpu: GpuTrace, limit: Limits) -> Finding:
    if gpu.waits is None or gpu.wait_gap_seconds is None:
        return not_applicable(_NO_CALLS)
    if gpu.frames is None:
        return not_applicable(_NO_FRAMES)
    shown = (
        _number("calls that wait for the GPU", gpu.waits, gpu),
        _time("GPU idle behind them, but for the longest", gpu.wait_gap_seconds, gpu),
    )
    each = f"{gpu.waits / gpu.units:.3g}"
    if gpu.wait_gap_seconds < limit["share"] * gpu.seconds:
        return passed(f"The host waits {each} times a frame, and the GPU is not idle behind more.", *shown)
    call = gpu.host_time("waits")
    return _found(
        gpu,
        f"The host waits for the GPU {each} times a frame, and the GPU is idle until it is given more: "
        f"{_of(gpu, gpu.wait_gap_seconds)}, not counting the longest such gap of each frame."
        + _by(call.where if call else None),
        *shown,
        saved=gpu.wait_gap_seconds,
    )


def host_bound_frame(gpu: GpuTrace, limit: Limits) -> Finding:
    if gpu.outside_seconds is None:
        return not_applicable(_NO_CALLS)
    outside, share = gpu.outside_seconds, gpu.ceiling.share if gpu.ceiling else 1.0
    shown = (_time("GPU idle, the host in no CUDA call", outside, gpu),)
    if outside < _MOSTLY * gpu.seconds or 1 - share < limit["share"]:
        return passed(f"The GPU is idle and the host in no CUDA call for {_of(gpu, outside)}.", *shown)
    return Finding(
        "advice",
        f"The GPU is idle while the host is in no CUDA call for {_of(gpu, outside)}; memory can change at "
        f"most {units.percent(share)}. Speed up the host's own work, or run it beside the GPU's.",
        evidence=shown,
    )


def peer_access_off(gpu: GpuTrace, limit: Limits) -> Finding:
    flows, link = gpu.copies(PEER), gpu.links.get("to-host")
    best = max((flow.best_bytes_per_second or 0 for flow in flows), default=0.0)
    if not best or link is None:
        return not_applicable("No copy of 1 MiB or more to another GPU, or the catalogue has no link rate.")
    seconds, shown = exposed(flows), _time("copies to other GPUs, beside no kernel", exposed(flows), gpu)
    rates = f"{units.rate(best)}, and a copy to the host at {units.rate(link.bytes_per_second)}"
    if best >= _SLOW * link.bytes_per_second or seconds < limit["share"] * gpu.seconds:
        return passed(f"The fastest copy to another GPU runs at {rates} ({link.source}).", shown)
    return _found(
        gpu,
        f"{_moved(flows, gpu)}{_a_frame(gpu)} go to another GPU at {rates} ({link.source}): probably they "
        "are staged in host memory. See whether the GPUs can reach each other (`nvidia-smi topo -m`), and "
        f"enable peer access (`cudaDeviceEnablePeerAccess`).{_by(*(flow.where for flow in flows))}",
        shown,
        saved=seconds - sum(flow.bytes for flow in flows) / link.bytes_per_second,
    )


def unbalanced_split(gpus: tuple[GpuTrace, ...], limit: Limits) -> Finding:
    sending = [any(flow.kind == PEER for flow in gpu.flows or ()) for gpu in gpus]
    if any(sending) and not all(sending):
        return not_applicable("The GPUs copy to one another in one direction: a pipeline, not a split.")
    counts = [gpu.units if gpu.frames else 0 for gpu in gpus]
    if min(counts) == 0 or max(counts) > 1.1 * min(counts) + 1:
        return not_applicable("The GPUs do not have the same number of frames.")
    busy = {gpu.label: (gpu.seconds - gpu.idle_seconds) / gpu.units for gpu in gpus}
    most, mean = max(busy.values()), sum(busy.values()) / len(busy)
    shown = [Evidence(label=f"{n}, busy per frame", value=s, unit="seconds") for n, s in busy.items()]
    if mean == 0 or most / mean < limit["ratio"]:
        return passed("The GPUs are about equally busy.", *shown)
    longest = max(busy, key=lambda label: busy[label])
    worth = Gain(seconds_per_frame=most - mean, bytes=None, basis="estimated")
    return Finding(
        "advice",
        f"{longest} is busy for {units.seconds(most)} of a frame, {units.ratio(most / mean)} the mean of "
        f"{len(busy)} GPUs.",
        evidence=tuple(shown),
        gain=worth,
    )


RULES: tuple[tuple[str, Callable[[GpuTrace, Limits], Finding]], ...] = (
    ("pageable-transfer", pageable_transfer),
    ("link-below-best", link_below_best),
    ("small-transfers", small_transfers),
    ("serial-copies", serial_copies),
    ("pin-per-frame", pin_per_frame),
    ("page-fault-migration", page_fault_migration),
    ("ping-pong-migration", ping_pong_migration),
    ("implicit-wait", implicit_wait),
    ("host-bound-frame", host_bound_frame),
    ("peer-access-off", peer_access_off),
)
"""The rules that a report can carry, for each GPU; `unbalanced-split` is for all together."""
