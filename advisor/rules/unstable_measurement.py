"""unstable-measurement: the figures scatter so much that strategies cannot be told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from advisor import stats, units
from advisor.profiles.schema import Environment, Evidence, Method, Recommendation
from advisor.rules.base import Finding, Row, Rule, Threshold, evidence, not_applicable, passed
from advisor.rules.findings import ALL_CLASSES, UNKNOWN_CLASS, fastest


def judge(
    rows: Mapping[str, Row],
    verdict: Recommendation | None,
    machine: Environment | None,
    method: Method | None,
    limits: Mapping[str, float],
) -> Finding:
    """Names the row that scatters most among those the verdict hangs on, where it hangs."""
    if machine is None or method is None:
        return not_applicable("Nothing was measured on this device.")
    contenders = _contenders(rows, verdict)
    if not contenders:
        return not_applicable("No strategy has frames of its own.")
    worst = max(contenders, key=_half_width)
    width = _half_width(worst)
    if width < limits["width"]:
        return passed(
            f"Medians are known to {units.percent(width)} or better among the strategies that matter.",
            *_evidence(worst),
        )
    if verdict is not None and verdict.verdict not in ("open", "untrusted"):
        return passed(
            f"{worst.strategy} is known to {units.percent(width)} only, but the verdict holds all the same.",
            *_evidence(worst),
        )
    return Finding("advice", _detail(worst, machine, method), evidence=_evidence(worst), inferred=True)


def _contenders(rows: Mapping[str, Row], verdict: Recommendation | None) -> list[Row]:
    """The strategies between which the verdict is: those it could not tell apart, else the fastest."""
    named = [] if verdict is None else [verdict.strategy, *verdict.tied_with]
    found = [row for row in rows.values() if row.strategy in named and row.rounds]
    best = fastest(row for row in rows.values() if row.rounds)
    return found or ([best] if best else [])


def _half_width(row: Row) -> float:
    """Half of the median's interval, as a share of the median."""
    return (row.interval[1] - row.interval[0]) / 2 / row.seconds


def _processes(row: Row) -> list[float]:
    return [median(frames) for frames in row.rounds if frames]


def _between(row: Row) -> float:
    """How far the medians of the processes lie apart, as a share of the median."""
    medians = _processes(row)
    return (max(medians) - min(medians)) / row.seconds


def _within(row: Row) -> float:
    """How far apart the middle half of one process's frames lies, of the worst process."""
    return max(_quartiles(frames) for frames in row.rounds if frames) / row.seconds


def _quartiles(frames: Sequence[float]) -> float:
    ordered = sorted(frames)
    return ordered[(3 * len(ordered)) // 4 - (len(ordered) % 4 == 0)] - ordered[len(ordered) // 4]


def _detail(worst: Row, machine: Environment, method: Method) -> str:
    between, within = _between(worst), _within(worst)
    scatter = (
        f"its processes differ by {units.percent(between)}, more than the frames of one process "
        f"({units.percent(within)}): what a process draws at its start, such as where its pages lie, decides"
        if between > within
        else f"the frames of one process already lie {units.percent(within)} apart: something else is at work"
    )
    return (
        f"The median of {worst.strategy} is known to ±{units.percent(_half_width(worst))} only, and the "
        f"strategies that may be the best lie closer together: {scatter}. {_seen(machine)} "
        f"{_remedy(method)}"
    )


def _seen(machine: Environment) -> str:
    """What the machine told that makes figures scatter; or that it told nothing."""
    states = machine.gpu_readings
    reasons = dict.fromkeys(reason for s in states for reason in s.throttle_reasons or ())
    others = max((s.other_processes or 0 for s in states), default=0)
    causes = [f"the GPU throttled ({', '.join(reasons)})"] if reasons else []
    causes += [f"other processes used the GPU ({others})"] if others else []
    governors = machine.host.cpu.governors if machine.host else ()
    if any(governor != "performance" for governor in governors):
        causes.append(f"the CPU's clocks were left to the governor {', '.join(governors)}")
    if causes:
        return f"Seen meanwhile: {'; '.join(causes)}."
    return "Nothing in the machine's readings explains it."


def _remedy(method: Method) -> str:
    rounds = max(10, 3 * method.rounds)
    return (
        f"Fix the clocks, stop what else runs, and profile again with --rounds {rounds}: the interval "
        "shrinks with the number of processes, not with the length of a run."
    )


def _evidence(row: Row) -> tuple[Evidence, ...]:
    medians = _processes(row)
    return (
        evidence(
            f"{row.strategy}: half of the median's interval, of the median", _half_width(row), "ratio", row
        ),
        evidence(f"{row.strategy}: fastest process", min(medians), "seconds", row),
        evidence(f"{row.strategy}: slowest process", max(medians), "seconds", row),
        evidence(f"{row.strategy}: processes", len(medians), "count", row),
    )


RULE = Rule(
    id="unstable-measurement",
    title="Steady the machine and measure again: the figures scatter too much",
    why="Where pages land, which core runs the program, clocks that rise and fall and others on the machine "
    "move the times of two processes apart by more than strategies differ. More frames do not help, since "
    "they repeat the same draw; more processes and fixed clocks do.",
    memory_classes=ALL_CLASSES,
    elsewhere=UNKNOWN_CLASS,
    needs=("rows", "verdict", "machine", "method"),
    thresholds=(
        Threshold(
            "width",
            stats.EQUIVALENCE,
            "ratio",
            "half of the median's interval over the median, from which a row cannot show a difference",
            "the margin within which the verdict calls strategies equal: a wider interval cannot show that "
            "two are, nor that one is faster by as much",
        ),
    ),
    sources=(
        "Kalibera and Jones, Rigorous Benchmarking in Reasonable Time, ISMM 2013: repeat at the level that "
        "varies most",
        "Mytkowicz et al., Producing Wrong Data Without Doing Anything Obviously Wrong, ASPLOS 2009",
    ),
    judge=judge,
)
