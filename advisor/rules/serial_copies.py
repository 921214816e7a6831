"""serial-copies: copies, kernels and host stages take turns where they could run beside one another."""

from dataclasses import replace

from advisor import units
from advisor.rules.base import Case, Finding, Limits, Row, Traced, idle, passed, text
from advisor.strategies.registry import BASELINE

_SUBJECT = "pinned"
_OVERLAPPED = "pinned-pipelined"


def judge(case: Case, limits: Limits) -> Finding:
    serial, overlapped = case.rows.get(_SUBJECT) or case.rows.get(BASELINE), case.rows.get(_OVERLAPPED)
    if serial is None:
        return case.without(_SUBJECT)
    path = serial.part(serial.transfer_seconds + serial.device_seconds)
    if not serial.transfer_seconds or path < limits["share"]:
        little = f"Copies and kernels are {units.percent(path)} of a frame of {serial.strategy}"
        reason = f"{little}: there is little to overlap."
        return passed(reason, serial.copies(), serial.kernels())
    if overlapped is None:
        return case.without(_OVERLAPPED)
    chosen = case.chosen
    if chosen is not None and chosen is not overlapped and chosen.no_slower(overlapped):
        reason = f"the recommended {chosen.strategy} is as fast without a second set of buffers."
        return passed(reason, chosen.frame(), overlapped.frame())
    if not overlapped.beats(serial):
        copies, kernels = (serial.transfer_seconds, "copies"), (serial.device_seconds, "kernels")
        longest, which = max((serial.host_seconds, "host stages"), copies, kernels)
        reason = (
            f"Overlapping frames are not clearly faster than {serial.strategy}: the {which} alone take "
            f"{units.seconds(longest)} of {units.seconds(serial.seconds)}."
        )
        return passed(reason, serial.frame(), overlapped.frame(), serial.stages(), serial.copies())
    late = overlapped.latency_seconds
    shown = [serial.copies(), serial.kernels(), serial.stages()]
    shown += [overlapped.figure(f"{_OVERLAPPED}: latency of a frame", late)] if late is not None else []
    swap = case.swap(serial, overlapped, _cause(serial), shown, worth=_worth(serial, overlapped))
    # Frames are done more often, and each takes longer: that is time saved for throughput alone.
    return swap if chosen is overlapped else replace(swap, gain=None)


def _cause(serial: Row) -> str:
    return (
        f"In a frame of {serial.strategy}, copies ({units.seconds(serial.transfer_seconds)}), kernels "
        f"({units.seconds(serial.device_seconds)}) and host stages ({units.seconds(serial.host_seconds)}) "
        f"{'are predicted to ' if serial.predicted else ''}run one after another. With two sets of "
        "buffers the next frame is produced and uploaded while this one computes."
    )


def _worth(serial: Row, overlapped: Row) -> str:
    done = "is predicted to finish" if overlapped.predicted else "finishes"
    more = overlapped.physical_bytes - serial.physical_bytes
    price = f"It takes {units.size(more)} more memory" if more > 0 else ""
    if overlapped.latency_seconds is not None:
        after = units.seconds(overlapped.latency_seconds)
        late = f"latency is {after}; --objective throughput ignores latency"
        price = f"{price}, and {late}" if price else late[0].upper() + late[1:]
    return text(
        f"{overlapped.strategy} {done} {units.times(serial.over(overlapped))} as many frames per second: "
        f"{units.seconds(overlapped.seconds)} between finished frames, {units.seconds(serial.seconds)} "
        f"with {serial.strategy}.",
        f"{price}." if price else "",
    )


TRACED = Traced((_SUBJECT, BASELINE), idle)
