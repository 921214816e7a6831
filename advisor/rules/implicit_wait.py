"""implicit-wait: device stages that ask the GPU for a value, and stand until it is done."""

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.profiles.traces import Wait
from advisor.rules.base import Case, Finding, Limits, advice, not_applicable, passed
from advisor.rules.lines import LineCase
from advisor.rules.snippets.lines import on_gpu


def judge(case: Case, limits: Limits) -> Finding:
    if not case.traffic.work:
        return not_applicable("The device stages were not traced.")
    if not (waits := case.traffic.waits):
        return passed("No device stage waits for the GPU.")
    count = sum(wait.count for wait in waits)
    spared, row = count * limits["seconds"], case.baseline
    shown = (
        Evidence(label="waits in a frame", value=count, unit="count"),
        row.figure("minimum time of these waits", spared),
        row.frame(),
    )
    if row.part(spared) < limits["share"]:
        return passed(
            f"Device stages wait for the GPU {_times(count)}, {units.percent(row.part(spared))} of a frame "
            f"of {units.seconds(row.seconds)}: {_lines(waits)}.",
            *shown,
        )
    unpredicted = " (not part of the predicted time)" if row.predicted else ""
    advised = " ".join(dict.fromkeys(wait.write for wait in waits))
    return advice(
        f"Device stages wait for the GPU {_times(count)} in a frame: {_lines(waits)}. Each copies a value to "
        f"the host and returns when all earlier work is done: at least {units.seconds(limits['seconds'])}, "
        f"during which nothing is launched{unpredicted}. {advised}",
        *shown,
        saved=spared,
        inferred=True,
    )


def _times(count: float) -> str:
    return f"{count:g} {'time' if count == 1 else 'times'}"


def _lines(waits: tuple[Wait, ...]) -> str:
    return ", ".join(f"{wait.call} in {wait.stage} ({wait.line})" for wait in waits)


def judge_line(case: LineCase, limits: Limits) -> Finding | None:
    crossing, saved = case.crossing, case.frame_seconds
    if crossing.kind != "wait" or not case.is_worth(saved, limits):
        return None
    kernels = (crossing.kernel_seconds or 0.0) / case.scope.frames
    held = f", and holds back {case.at(crossing.holds_back)}" if crossing.holds_back else ""
    return case.advice(
        f"Keep {case.what} on the GPU",
        f"`{case.line.call or crossing.call}` copies a value to the host and returns when all earlier work "
        f"is done{held}.",
        f"It stands for {units.seconds(kernels)} of kernels in a frame, which take as long without it."
        if kernels
        else "",
        "The gain is the time of the calls, without the kernels that they wait for.",
        saved=saved,
        after=on_gpu(case.line, "after the loop"),
    )
