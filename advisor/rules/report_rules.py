"""Each rule judged on an Nsight Systems report. Gains are estimates, at most what the advice can save."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from advisor import units
from advisor.profiles.conclusions import Evidence, Unit
from advisor.profiles.programs import SMALL, Flow, GpuTrace, HostTime, Managed
from advisor.rules.base import Finding, Limits, advice, not_applicable
from advisor.rules.registry import by_id

UP, DOWN, PEER = "host-to-device", "device-to-host", "peer-to-peer"
_LINKS = {UP: "to-device", DOWN: "to-host"}
_LACKING = {
    "flows": "nsys recorded no copies and no kernels.",
    "host": "The report has no CUDA calls of the host (--trace=cuda).",
    "frames": "No frames were found; name an NVTX range with --frame.",
    "managed": "nsys recorded no migration of managed memory on this GPU.",
}
"""Why a rule does not apply, by what it needs of the GPU."""
CALLED = "Called from "
_CALL_SECONDS = 5e-6
"""The call of the smallest copy, at least: 5 to 7 µs (arXiv 2602.21548)."""
_FAULT_SECONDS = 50e-6
"""A page fault takes 10 to 50 µs (ObservUVM)."""
_SLOW = 0.75
"""Part of the best rate; a link of half the lanes or an older generation reaches 0.5 of it."""
_OVERLAPPED = 0.5
"""The share of the copies that runs beside kernels from which they are overlapped already: a choice."""
_REPEATED, _LONG = 3, 0.1
"""Calls, and their share of the time, from which page-locking or allocating between some frames counts too: a
choice; fewer calls do not repeat."""
_MOSTLY = 0.5
_HARDLY = 0.01
"""Part of the busiest GPU's kernel time below which another GPU has no share of the work: a choice."""


def stopped(moved: Managed) -> float:
    """Kernels in which pages moved by faults, and the host at its own faults."""
    to_host = sum(m.count for m in moved.migrations if m.direction == "to-host" and m.cause == "page fault")
    faults = to_host if moved.cpu_page_faults is None else moved.cpu_page_faults
    return (moved.stalled_seconds if moved.by_fault() else 0.0) + faults * _FAULT_SECONDS


def exposed(flows: Sequence[Flow]) -> float:
    return sum(flow.exposed_seconds for flow in flows)


def _finding(
    gpu: GpuTrace,
    fires: bool,
    detail: str,
    otherwise: str,
    *evidence: Evidence,
    saved: float | None,
    title: str | None = None,
) -> Finding:
    """Advice where it fires. saved: at most, over all frames; None for what memory does not change."""
    if not fires:
        return Finding("pass", otherwise, evidence=evidence)
    return advice(detail, *evidence, saved=(saved or 0.0) / gpu.units, title=title, inferred=True)


def _figure(label: str, total: float, gpu: GpuTrace, unit: Unit = "seconds") -> Evidence:
    each = ", per frame" if gpu.frames else ""
    return Evidence(label=f"{label}{each}", value=total / gpu.units, unit=unit)


def _a_frame(gpu: GpuTrace) -> str:
    return " a frame" if gpu.frames else ""


def _of(gpu: GpuTrace, seconds: float) -> str:
    """ "1.20 ms of each frame (12 %)" """
    what = "each frame" if gpu.frames else "the run"
    return f"{units.seconds(seconds / gpu.units)} of {what} ({units.percent(seconds / gpu.seconds)})"


def _by(calls: Iterable[Flow | HostTime]) -> str:
    """Where the calls come from, if the report has backtraces."""
    names = list(dict.fromkeys(each.where for each in calls if each.where))
    return f" {CALLED}{', '.join(names)}." if names else ""


def _moved(flows: Sequence[Flow], gpu: GpuTrace) -> str:
    return units.size(sum(flow.bytes for flow in flows) / gpu.units)


def pageable_transfer(gpu: GpuTrace, limit: Limits) -> Finding:
    if gpu.flows and all(flow.memory == "unknown" for flow in gpu.flows):
        return not_applicable("The export does not tell the kind of host memory of any copy.")
    flows = [f for way in _LINKS for f in gpu.copies(way, "pageable")]
    seconds, saved, rates = exposed(flows) + sum(flow.staging_seconds for flow in flows), 0.0, []
    for flow in flows:
        best = _best(gpu, flow.kind)
        saved += flow.spared(best and best[0])
        own = f"{units.rate(flow.bytes_per_second or 0)} {_LINKS[flow.kind].replace('-', ' the ')}"
        rates.append(own + (f" (page-locked: {units.rate(best[0])}, {best[1]})" if best else ""))
    return _finding(
        gpu,
        seconds >= limit["share"] * gpu.seconds,
        f"{_moved(flows, gpu)} from or to pageable memory take {_of(gpu, seconds)}, with the GPU idle in "
        f"their calls: {', '.join(rates)}. The driver stages them, and the host waits."
        f"{_by(flows)}",
        f"Copies of pageable memory above 64 KiB take {_of(gpu, seconds)}.",
        _figure("copies from and to pageable memory, and the GPU idle in their calls", seconds, gpu),
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
    flows = [f for way in _LINKS for f in gpu.flows or () if f.small and f.kind == way]
    count, calls = sum(flow.count for flow in flows), sum(flow.calls for flow in flows)
    call = gpu.host_time("copies")
    alone = call and call.count and not any(not flow.small for flow in gpu.flows or ())
    each = max(_CALL_SECONDS, call.seconds / call.count if call and alone else 0.0)
    # In a CUDA graph, copies have no calls of their own and take their time on the GPU.
    spent = max(calls * each, exposed(flows))
    saved = spent * max(1 - len({flow.kind for flow in flows}) * gpu.units / max(count, 1), 0.0)
    mean = units.size(sum(flow.bytes for flow in flows) / max(count, 1))
    own = f", {units.seconds(each)} a call" * (calls == count)
    return _finding(
        gpu,
        saved >= limit["share"] * gpu.seconds and count >= 2 * gpu.units,
        f"{count / gpu.units:.3g} copies{_a_frame(gpu)} of {mean} on average{own}: "
        f"{_of(gpu, spent)}. One copy in each direction would do.{_by(flows)}",
        f"Copies of at most {units.size(SMALL)} cost {_of(gpu, spent)}.",
        _figure("copies of at most 64 KiB", count, gpu, "count"),
        _figure("they and their calls", spent, gpu),
        saved=saved,
    )


def serial_copies(gpu: GpuTrace, limit: Limits) -> Finding:
    if gpu.shares_dram:
        return not_applicable(by_id("serial-copies").text.elsewhere)
    kernels = max(gpu.kernel_seconds - (gpu.managed.stalled_seconds if gpu.managed else 0.0), 0.0)
    busy = gpu.copy_seconds + kernels - min(gpu.hidden_seconds, kernels)
    both, other = gpu.both_seconds or 0.0, (gpu.down_seconds or 0.0, gpu.up_seconds or 0.0)
    # One after another, unless the report says that the GPU has an engine for each direction.
    alone = 0.0 if (gpu.copy_engines or 1) < 2 else 1.0
    up, down = (gpu.copy_seconds - alone * max(each - both, 0.0) for each in other)
    saved = max(busy - max(up, down, kernels), 0.0)
    beside = min(gpu.hidden_seconds + both, gpu.copy_seconds) / (gpu.copy_seconds or 1.0)
    each_way = f": {units.seconds(up / gpu.units)} up, {units.seconds(down / gpu.units)} down"
    ways = each_way if max(up, down) < gpu.copy_seconds else ""
    turns = "run one after another" if beside < 0.05 else f"overlap for {units.percent(beside)} of the copies"
    pageable = any(flow.memory == "pageable" and not flow.small for flow in gpu.flows or ())
    return _finding(
        gpu,
        beside < _OVERLAPPED and saved >= limit["share"] * gpu.seconds,
        f"Copies ({units.seconds(gpu.copy_seconds / gpu.units)}{ways}) and kernels "
        f"({units.seconds(kernels / gpu.units)}) {turns}. Overlapped they save at most {_of(gpu, saved)}."
        + " Copies of pageable memory cannot overlap: page-lock it first."
        * pageable,
        f"Overlapping copies and kernels would save at most {_of(gpu, saved)}."
        if beside < _OVERLAPPED
        else f"{units.percent(beside)} of the copies overlap.",
        _figure("copies beside no kernel", gpu.copy_seconds - gpu.hidden_seconds, gpu),
        _figure("kernels beside no copy", max(kernels - gpu.hidden_seconds, 0.0), gpu),
        _figure("copies in both directions at once", both, gpu),
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
        card = gpu.name or "this GPU"
        return not_applicable(f"Neither a copy rate nor the link of {card} is known: its link is not judged.")
    rates, slow, saved = [], [], 0.0
    for flow, link in known:
        own, best = flow.best_bytes_per_second or 0.0, link.bytes_per_second
        way = "uploads" if flow.kind == UP else "downloads"
        rates.append(f"{way} at {units.rate(own)}, {units.rate(best)} possible ({link.source})")
        if own < _SLOW * best:
            slow.append((rates[-1], flow))
            saved += flow.spared(best)
    took = exposed([flow for _, flow in slow])
    return _finding(
        gpu,
        bool(slow) and took >= limit["share"] * gpu.seconds,
        "Not even the fastest page-locked copy reaches the link's rate: "
        f"{', '.join(text for text, _ in slow)}. Check its lanes and generation (`nvidia-smi -q`, under "
        "load), whether several GPUs share it, and the NUMA node.",
        f"Page-locked copies: {', '.join(rates)}; {_of(gpu, took)}.",
        _figure("copies over the slow link", took, gpu),
        saved=saved,
        title="Find why the link runs below its rate",
    )


def pin_per_frame(gpu: GpuTrace, limit: Limits) -> Finding:
    evidence, often, makes, saved = [], [], [], 0.0
    for work, name, calls in (
        ("page-locking", "page-locking calls", "page-locking"),
        ("allocation", "allocations and frees", "cudaMalloc and cudaFree"),
    ):
        for each in (each for each in gpu.host or () if each.work == work):
            calls_a_frame = _figure(name, each.count, gpu, "count")
            evidence += [calls_a_frame, _figure(f"time in {name}", each.seconds, gpu)]
            seldom = each.count < limit["calls"] * gpu.units
            if not seldom or (each.count >= _REPEATED and each.seconds >= _LONG * gpu.seconds):
                often.append(each)
                makes.append(f"{each.count / gpu.units:.3g} {calls} calls")
                saved += each.seconds
    locks = any(each.work == "page-locking" for each in often)
    return _finding(
        gpu,
        locks or (bool(often) and saved >= _LONG * gpu.seconds),
        f"Each frame makes {' and '.join(makes)}, {_of(gpu, saved)}. Do it once, before the frames."
        f"{_by(often)}",
        "No frame page-locks memory, and allocations take little of it.",
        *evidence,
        saved=saved,
        title=None if locks else "Allocate once, before the frames, not in every frame",
    )


def page_fault_migration(gpu: GpuTrace, limit: Limits) -> Finding:
    assert gpu.managed
    moved = gpu.managed
    seconds = min(moved.exposed_seconds * moved.by_fault() + stopped(moved), gpu.seconds)
    faults = (("CPU", moved.cpu_page_faults), ("GPU", moved.gpu_page_faults))
    return _finding(
        gpu,
        seconds >= limit["share"] * gpu.seconds,
        f"{units.size(moved.bytes / gpu.units)} of managed memory{_a_frame(gpu)} migrate by page "
        "faults and what the driver fetches around them. With the kernels and host code that wait for pages, "
        f"that is at most {_of(gpu, seconds)}. Prefetch to the side that uses them next, or copy.",
        f"Migrations by page faults cost at most {_of(gpu, seconds)}.",
        _figure("migrations that no prefetch asked for", moved.seconds * moved.by_fault(), gpu),
        _figure("at most, with what they stop", seconds, gpu),
        *(_figure(f"page faults by the {who}", n, gpu, "count") for who, n in faults if n is not None),
        saved=seconds,
    )


def ping_pong_migration(gpu: GpuTrace, _: Limits) -> Finding:
    moved = gpu.managed
    if moved is None or moved.bouncing_bytes is None:
        return not_applicable("The report has no addresses of migrations, or nothing migrated.")
    most = min(moved.exposed_seconds + stopped(moved), gpu.seconds)
    seconds, ranges = most * moved.bouncing_bytes / max(moved.bytes, 1), moved.bouncing_ranges or 0
    each = moved.bouncing_bytes / gpu.units
    return _finding(
        gpu,
        ranges > 0 and seconds >= by_id("page-fault-migration").text.thresholds[0].default * gpu.seconds,
        f"{ranges} ranges of 2 MiB go to the GPU and back in every frame: {units.size(each)}, at most "
        f"{_of(gpu, seconds)}.",
        f"Ranges that go both ways in every frame take {_of(gpu, seconds)}.",
        Evidence(label="ranges of 2 MiB that go both ways", value=ranges, unit="count"),
        Evidence(label="bytes moved in them, per frame", value=each, unit="bytes"),
        saved=seconds,
    )


def implicit_wait(gpu: GpuTrace, limit: Limits) -> Finding:
    waits, behind, call = gpu.waits or 0, gpu.wait_gap_seconds or 0.0, gpu.host_time("waits")
    each = f"{waits / gpu.units:.3g}"
    return _finding(
        gpu,
        behind >= limit["share"] * gpu.seconds,
        f"The host waits for the GPU {each} times a frame, and the GPU is idle until it is given more: "
        f"{_of(gpu, behind)}, not counting the longest such gap of each frame." + _by([call] if call else []),
        f"The host waits {each} times a frame, and the GPU is not idle behind more.",
        _figure("calls that wait for the GPU", waits, gpu, "count"),
        _figure("GPU idle behind them, but for the longest", behind, gpu),
        saved=behind,
    )


def host_bound_frame(gpu: GpuTrace, limit: Limits) -> Finding:
    outside, share = gpu.outside_seconds or 0.0, gpu.ceiling.share if gpu.ceiling else 1.0
    return _finding(
        gpu,
        outside >= _MOSTLY * gpu.seconds and 1 - share >= limit["share"],
        f"The GPU is idle while the host is in no CUDA call for {_of(gpu, outside)}; memory can change at "
        f"most {units.percent(share)}. Speed up the host's own work, or run it beside the GPU's.",
        f"The GPU is idle and the host in no CUDA call for {_of(gpu, outside)}.",
        _figure("GPU idle, the host in no CUDA call", outside, gpu),
        saved=None,
    )


def peer_access_off(gpu: GpuTrace, limit: Limits) -> Finding:
    flows, link = gpu.copies(PEER), gpu.links.get("to-host")
    best = max((flow.best_bytes_per_second or 0 for flow in flows), default=0.0)
    if not best or link is None:
        return not_applicable("No copy of 1 MiB or more to another GPU, or the catalogue has no link rate.")
    seconds = exposed(flows)
    rates = f"{units.rate(best)}, and a copy to the host at {units.rate(link.bytes_per_second)}"
    return _finding(
        gpu,
        best < _SLOW * link.bytes_per_second and seconds >= limit["share"] * gpu.seconds,
        f"{_moved(flows, gpu)}{_a_frame(gpu)} go to another GPU at {rates} ({link.source}): probably they "
        "are staged in host memory. See whether the GPUs can reach each other (`nvidia-smi topo -m`), and "
        f"enable peer access (`cudaDeviceEnablePeerAccess`).{_by(flows)}",
        f"The fastest copy to another GPU runs at {rates} ({link.source}).",
        _figure("copies to other GPUs, beside no kernel", seconds, gpu),
        saved=sum(flow.spared(link.bytes_per_second) for flow in flows),
    )


def unbalanced_split(gpus: Sequence[GpuTrace], limit: Limits) -> Finding:
    sending = [any(flow.kind == PEER for flow in gpu.flows or ()) for gpu in gpus]
    if any(sending) and not all(sending):
        return not_applicable("The GPUs copy to one another in one direction: a pipeline, not a split.")
    own = {gpu.label: (gpu.kernel_seconds - gpu.collective_seconds) / gpu.units for gpu in gpus}
    # Frameworks make a context on other GPUs too, and hardly use it.
    gpus = [gpu for gpu in gpus if own[gpu.label] >= _HARDLY * max(own.values())]
    counts = [gpu.units if gpu.frames else 0 for gpu in gpus]
    if len(gpus) < 2 or min(counts) == 0 or max(counts) > 1.1 * min(counts) + 1:
        return not_applicable("No two GPUs have the same number of frames.")
    longest = max(gpus, key=lambda gpu: own[gpu.label])
    most, mean = own[longest.label], sum(own[gpu.label] for gpu in gpus) / len(gpus)
    saved = (most - mean) * longest.units
    nccl = " (without those of NCCL, which wait for the other GPUs)"
    return _finding(
        longest,
        most >= limit["ratio"] * mean > 0 and saved >= (limit["ratio"] - 1) * longest.seconds,
        f"{longest.label} runs kernels for {units.seconds(most)} of a frame, "
        f"{units.ratio(most / mean) if mean else ''} the mean of {len(gpus)} GPUs"
        f"{nccl * any(gpu.collective_seconds for gpu in gpus)}.",
        "The GPUs run kernels for about as long, or little of the frame.",
        *(Evidence(label=f"{g.label}, kernels per frame", value=own[g.label], unit="seconds") for g in gpus),
        saved=saved,
    )


_RULES: dict[str, tuple[Callable[[GpuTrace, Limits], Finding], tuple[str, ...]]] = {
    "pageable-transfer": (pageable_transfer, ("flows",)),
    "link-below-best": (link_below_best, ()),
    "small-transfers": (small_transfers, ("flows",)),
    "serial-copies": (serial_copies, ("flows",)),
    "pin-per-frame": (pin_per_frame, ("host", "frames")),
    "page-fault-migration": (page_fault_migration, ("managed",)),
    "ping-pong-migration": (ping_pong_migration, ("managed",)),
    "implicit-wait": (implicit_wait, ("host", "frames")),
    "host-bound-frame": (host_bound_frame, ("host",)),
    "peer-access-off": (peer_access_off, ()),
}
"""The rules for reports, for each GPU, and what they need of it."""
RULES = tuple(_RULES)
"""Their ids; `unbalanced-split` is for all GPUs together."""


def judge(rule: str, gpu: GpuTrace, limit: Limits) -> Finding:
    function, needs = _RULES[rule]
    lacking = next((_LACKING[need] for need in needs if getattr(gpu, need) is None), None)
    return not_applicable(lacking) if lacking else function(gpu, limit)
