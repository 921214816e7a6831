"""serial-copies: copies, kernels and host stages take turns where they could run beside one another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from advisor import units
from advisor.profiles.schema import Device, Evidence, WorkloadRecord
from advisor.rules.base import (
    Finding,
    Row,
    Rule,
    evidence,
    frame_evidence,
    no_figures,
    not_applicable,
    passed,
    shares_dram,
)
from advisor.rules.findings import change_to, copies, host_stages, kernels, no_slower, share_of_a_frame, text
from advisor.strategies.registry import BASELINE
from advisor.units import times

_SUBJECT = "pinned"
_OVERLAPPED = "pinned-pipelined"
_ELSEWHERE = "On one DRAM copies are better dropped than hidden: see duplicate-allocation."


def judge(
    device: Device,
    workload: WorkloadRecord,
    rows: Mapping[str, Row],
    absent: Mapping[str, str],
    recommended: str | None,
    limits: Mapping[str, float],
) -> Finding:
    """Advises two sets of buffers where the overlapped frames are faster than the serial ones."""
    if shares_dram(device):
        return not_applicable(_ELSEWHERE)
    serial, overlapped = rows.get(_SUBJECT) or rows.get(BASELINE), rows.get(_OVERLAPPED)
    if serial is None:
        return no_figures(_SUBJECT, absent)
    path = serial.transfer_seconds + serial.device_seconds
    if not serial.transfer_seconds or serial.part(path) < limits["share"]:
        return passed(
            f"Copies and kernels are {units.percent(serial.part(path))} of a frame of {serial.strategy}: "
            "there is little to hide behind other work.",
            copies(serial),
            kernels(serial),
        )
    if overlapped is None:
        return no_figures(_OVERLAPPED, absent)
    chosen = rows.get(recommended or "")
    kept = _kept(serial, overlapped, chosen)
    if kept is not None:
        return kept
    found = change_to(
        overlapped,
        serial,
        _detail(serial, overlapped),
        (copies(serial), kernels(serial), host_stages(serial), *_latency(overlapped)),
        device=device,
        workload=workload,
    )
    # Frames are done more often, and each takes longer: that is time saved for throughput alone.
    return found if chosen is overlapped else replace(found, gain=None)


def _kept(serial: Row, overlapped: Row, chosen: Row | None) -> Finding | None:
    """Why overlapping is not worth its price here, or None."""
    if chosen is not None and chosen is not overlapped and no_slower(chosen, overlapped):
        return passed(
            f"{chosen.strategy}, which is recommended, is as fast without a second set of buffers.",
            frame_evidence(chosen),
            frame_evidence(overlapped),
        )
    return None if overlapped.beats(serial) else _no_gain(serial, overlapped)


def _no_gain(serial: Row, overlapped: Row) -> Finding:
    longest = max(serial.host_seconds, serial.transfer_seconds, serial.device_seconds)
    which = {
        serial.host_seconds: "host stages",
        serial.transfer_seconds: "copies",
        serial.device_seconds: "kernels",
    }[longest]
    return passed(
        f"Overlapping frames are not surely faster than those of {serial.strategy}: of what could run at "
        f"once, the {which} alone take {units.seconds(longest)} of {units.seconds(serial.seconds)}.",
        frame_evidence(serial),
        frame_evidence(overlapped),
        host_stages(serial),
        copies(serial),
    )


def _latency(row: Row) -> list[Evidence]:
    if row.latency_seconds is None:
        return []
    return [evidence(f"{row.strategy}: begin to end of a frame", row.latency_seconds, "seconds", row)]


def _rates(serial: Row, overlapped: Row) -> str:
    done = "is predicted to finish" if overlapped.predicted else "finishes"
    return (
        f"{overlapped.strategy} {done} {times(serial.over(overlapped))} as many frames per second: one every "
        f"{units.seconds(overlapped.seconds)}, where {serial.strategy} takes {units.seconds(serial.seconds)}."
    )


def _detail(serial: Row, overlapped: Row) -> str:
    more = overlapped.physical_bytes - serial.physical_bytes
    price = f"It takes {units.size(more)} more memory" if more > 0 else ""
    if overlapped.latency_seconds is not None:
        after = units.seconds(overlapped.latency_seconds)
        late = f"a result comes {after} after its frame began: --objective throughput goes by the rate alone"
        price = f"{price}, and {late}" if price else late[0].upper() + late[1:]
    return text(
        f"In a frame of {serial.strategy}, copies ({units.seconds(serial.transfer_seconds)}), kernels "
        f"({units.seconds(serial.device_seconds)}) and host stages ({units.seconds(serial.host_seconds)}) "
        f"{'are predicted to ' if serial.predicted else ''}wait for one another. With two sets of buffers "
        "the next frame is produced and uploaded while this one computes.",
        _rates(serial, overlapped),
        f"{price}." if price else "",
    )


RULE = Rule(
    id="serial-copies",
    title="Overlap the copies: two sets of buffers and a stream for each direction",
    why="A GPU has engines of its own for copies, one for each direction on most cards: uploads, kernels, "
    "downloads and the CPU's stages of neighbouring frames can all run at once, where page-locked memory "
    "and a second set of buffers let them. Then a frame takes as long as its slowest part, not as their sum.",
    memory_classes=("discrete", "discrete-hmm", "coherent"),
    elsewhere=_ELSEWHERE,
    needs=("device", "workload", "rows", "absent", "recommended"),
    thresholds=(
        share_of_a_frame(
            "part of a serial frame that copies and kernels take, from which hiding them is worth a change"
        ),
    ),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html"
        "#asynchronous-and-overlapping-transfers-with-computation",
    ),
    judge=judge,
)
