"""`--fail-if`: what a comparison must not show. A gate fails only where the whole interval says so.

Where neither "it holds" nor "it fails" follows from the intervals, it is inconclusive, and says so.
Several strategies are compared with one limit at once. To fail, one of them must exceed it in an interval of
confidence 1 - (1 - c) / k, so that all k together raise a false alarm in at most 1 - c of the runs
(Bonferroni's inequality; Dunn, "Multiple Comparisons Among Means", JASA 56, 1961). To pass, every one of them
must lie below it, which needs no such correction (intersection-union test; Berger, Technometrics 24, 1982).
A time that is `FAR` beyond the limit fails though the limit is in its interval; one that a single run of both
versions measured, if it is slower at all by that interval.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from advisor import stats, units
from advisor.errors import UsageError
from advisor.profiles.schema import LATE, WRONG_RESULTS, Predicted
from advisor.verdicts.comparing.comparisons import ComparedDevice, Comparison, on_cpu
from advisor.verdicts.comparing.results import Results
from advisor.verdicts.comparing.rows import Compared, OneSided, ratio_of

Status = Literal["passed", "failed", "inconclusive", "not applicable"]
"""A gate that does not apply never fails: `--strict` is about noise, and there is none."""
Kind = Literal[
    "slower", "footprint", "recommendation-changes", "results-differ", "crossing", "advice", "ceiling"
]
"""Advice and ceiling are of reports of Nsight Systems (`rules.reports`)."""

_LIMIT = re.compile(r"\+?([0-9]{1,6}(?:\.[0-9]{1,6})?) ?%")
_DRAWS_BEYOND = 25
"""Resamples beyond each end of an interval: as many as of 1000 at 95 %."""
FAR = 2.0
"""Times the limit. Runs of the same code differ by at most 1.6, on one busy CPU (`rows.HOST_NOISE`)."""
_NAMED: tuple[Kind, ...] = ("recommendation-changes", "results-differ")
_LIMITED: tuple[Kind, ...] = ("slower", "footprint", "crossing")
_KNOWN = "Write slower=5%, footprint=+10%, recommendation-changes, results-differ or crossing=+10%."


@dataclass(frozen=True)
class Gate:
    """One `--fail-if`; `limit` is a share (0.05), and 0 where there is none."""

    text: str
    kind: Kind
    limit: float = 0.0


@dataclass(frozen=True)
class Ruling:
    """A gate's outcome, with a sentence for each strategy that decided it. Names stand between backticks."""

    gate: Gate
    status: Status
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Finding:
    status: Status
    reason: str


def parse_gates(texts: Sequence[str]) -> tuple[Gate, ...]:
    """`slower=5%`, `footprint=+10%`, `recommendation-changes`, `results-differ`; each once. Raises
    `UsageError`."""
    gates: dict[Gate, None] = {}
    for text in texts:
        name, equals, value = text.strip().partition("=")
        kind = next((kind for kind in (*_NAMED, *_LIMITED) if kind == name), None)
        if kind is None or (equals and kind in _NAMED):
            raise UsageError(f"--fail-if {text!r} is not a gate", next_step=_KNOWN)
        limit = _LIMIT.fullmatch(value.strip())
        if kind in _NAMED:
            gates[Gate(kind, kind)] = None
        elif limit is None:
            raise UsageError(f"--fail-if {text!r} has no limit from 0% to 999999%", next_step=_KNOWN)
        else:
            sign, percent = "" if kind == "slower" else "+", float(limit[1])
            gates[Gate(f"{kind}={sign}{percent:g}%", kind, percent / 100)] = None
    return tuple(gates)


def of_versions(gates: Sequence[Gate], *, anyway: bool) -> tuple[Gate, ...]:
    """The gates and one on results, which any gate brings unless other results are wanted (`anyway`).

    Raises `UsageError` for a gate on lines of scripts.
    """
    for gate in gates:
        if gate.kind == "crossing":
            raise UsageError(f"--fail-if {gate.text} needs two profiles of a script", next_step="Omit --run.")
    results = [Gate("results-differ", "results-differ")] * bool(gates and not anyway)
    return tuple(dict.fromkeys((*gates, *results)))


def require_of_profiles(gates: Sequence[Gate], *, script: bool = False) -> None:
    """Raises `UsageError` for a gate that only a run of two versions, or the other kind of profile, has."""
    for gate in gates:
        if script != (gate.kind == "crossing"):
            other = "lines of scripts, not workloads" if gate.kind == "crossing" else "workloads, not scripts"
            step = "Use crossing=+10%." if script else "Use slower=5% or footprint=+10%."
            raise UsageError(f"--fail-if {gate.text} is about {other}", next_step=step)
    if any(gate.kind == "results-differ" for gate in gates):
        raise UsageError(
            "--fail-if results-differ needs --run: profiles hold times, not results",
            next_step="Compare two versions with advisor compare --run, or omit it.",
        )


def judge(comparison: Comparison, gates: Sequence[Gate], *, anyway: bool = False) -> tuple[Ruling, ...]:
    """anyway: gates apply to frames of different work too. Results do where both ran with HEAD's values."""
    other_work = f"Frames do different work: {'; '.join(comparison.changed_work)}."
    same_work = anyway or not comparison.changed_work
    compared = bool(comparison.results.compared)
    return tuple(
        rule(gate, [*_findings(comparison, gate), *_unjudged(comparison, gate)])
        if same_work or (compared and gate.kind == "results-differ")
        else Ruling(gate, "not applicable", (other_work,))
        for gate in gates
    )


def not_applicable(gates: Sequence[Gate], reason: str) -> tuple[Ruling, ...]:
    return tuple(Ruling(gate, "not applicable", (reason,)) for gate in gates)


def rule(gate: Gate, findings: Sequence[Finding]) -> Ruling:
    """Failed if one failed, inconclusive if one is; passed only if there is something that passed."""
    for status in ("failed", "inconclusive", "not applicable"):
        deciding = tuple(f.reason for f in findings if f.status == status)
        if deciding:
            return Ruling(gate, status, deciding)
    if not findings:
        return Ruling(gate, "inconclusive", ("Nothing could be judged.",))
    return Ruling(gate, "passed", tuple(f.reason for f in findings if f.reason))


def _findings(comparison: Comparison, gate: Gate) -> Iterator[Finding]:
    if gate.kind == "results-differ":
        yield from _results(comparison.results)
        return
    for name in comparison.unmatched_devices:
        yield Finding("inconclusive", f"{name} is predicted in only one of the two.")
    for device in comparison.devices:
        if gate.kind == "recommendation-changes":
            if device.device.kind == "cpu" and len(comparison.devices) > 1:
                continue  # there is nothing to choose on it; devices are predicted
            yield _recommendation(device, named=len(comparison.devices) > 1)
            continue
        yield from (_lost(gap) for gap in device.one_sided if gap.missing_in == "HEAD")
        judged = sum(len(each.rows) for each in comparison.devices)
        for row in device.rows:
            at = f" on {device.device.name}" if len(comparison.devices) > 1 else ""
            if gate.kind != "footprint":
                yield _slower(row, gate, judged, comparison.confidence, at)
            elif row.base_bytes is None or row.head_bytes is None:
                yield Finding("inconclusive", f"The memory of `{row.strategy}` is not known in both.")
            elif row.head_bytes <= row.base_bytes * (1 + gate.limit):  # accounted, so without an interval
                yield Finding("passed", "")
            else:
                grown = f"{units.size(row.base_bytes)} in BASE, {units.size(row.head_bytes)} in HEAD"
                yield Finding("failed", f"`{row.strategy}`{at} takes more memory: {grown}")


def _unjudged(comparison: Comparison, gate: Gate) -> Iterator[Finding]:
    """Strategies that the user's code uses and that have no ratio, but for those that no CPU has."""
    for gap in comparison.unjudged:
        if on_cpu(comparison.head) and gap.status == "skipped" and gap.reason != LATE:
            continue
        wrong = gap.missing_in == "HEAD" and gap.reason.startswith(WRONG_RESULTS)
        if gate.kind in ("slower", "footprint") or (gate.kind == "results-differ" and wrong):
            yield _lost(gap)


def _lost(gap: OneSided) -> Finding:
    """A strategy that ran in BASE: that it fails now fails the gate; left out, it is not judged."""
    side = gap.missing_in
    if (side, gap.status) == ("HEAD", "failed"):
        return Finding("failed", f"`{gap.strategy}` ran in BASE and fails in HEAD: {gap.reason}")
    status: Status = "not applicable" if (side, gap.status) == ("BASE", "failed") else "inconclusive"
    return Finding(status, f"`{gap.strategy}` has no figures in {side} ({gap.status}): {gap.reason}")


def _slower(row: Compared, gate: Gate, judged: int, confidence: float, at: str) -> Finding:
    most, limit = 1 + gate.limit, f"limit {_more(1 + gate.limit)} %"
    off = 1.0 if row.trusted else row.off
    # An interval of both versions in one run holds for few rounds too.
    least = 1 if row.paired else 0
    if not isinstance(row.base, Predicted) and row.ratio.value > FAR * most * off and row.ratio.low > least:
        times = units.ratio(row.ratio.value)
        return Finding("failed", f"`{row.strategy}`{at}: {times} the time of BASE; {limit}")
    if not row.trusted:
        return Finding(
            "inconclusive", "A second copy of HEAD differs from HEAD, so the run cannot be trusted."
        )
    if row.ratio.high <= most:
        return Finding("passed", "")
    change = f"`{row.strategy}`{at}: {_more(row.ratio.value)} %"
    if row.ratio.low > most:
        level, low = confidence, row.ratio.low
        if not row.paired:  # else it holds for all strategies together as it is
            level = 1 - (1 - confidence) / judged
            draws = max(stats.RESAMPLES, math.ceil(2 * _DRAWS_BEYOND / (1 - level)))
            low = min(low, ratio_of(row.base, row.head, level, resamples=draws).low)
        if low > most:
            at_level = f"{units.digits(level * 100, 3)} % interval"
            basis = "predicted ranges" if isinstance(row.base, Predicted) else at_level
            return Finding("failed", f"{change}, at least {_more(low)} % ({basis}); {limit}")
    ends = f"{_more(row.ratio.low)} to {_more(row.ratio.high)}"
    if not row.used:
        return Finding("passed", f"{change} ({ends}), not judged: --strategy does not name it")
    return Finding("inconclusive", f"{change} ({ends}); {limit}")


def _more(ratio: float) -> str:
    """By how many percent a time differs from BASE's, with its sign: +3.1, +0."""
    share = (ratio - 1) * 100
    sign, size = units.MINUS if share <= -0.05 else "+", abs(share)
    return f"{sign}{size:.{int(size < 9.95 and round(size, 1) % 1 > 0)}f}"


def _results(results: Results) -> Iterator[Finding]:
    if results.different:
        yield Finding("failed", f"{results.sentence}. If that is wanted, add --anyway.")
    elif results.unrepeatable and not results.compared:
        yield Finding("not applicable", " ".join(results.notes))
    elif results.absent or results.unsteady or results.gone:
        yield Finding("inconclusive", " ".join(results.notes))
    else:
        yield Finding("passed", " ".join(results.notes))


def _recommendation(device: ComparedDevice, *, named: bool) -> Finding:
    recommended = device.recommended
    at = f" on {device.device.name}" if named else ""
    base, head = (f"`{s}`" if s else "no single strategy" for s in (recommended.base, recommended.head))
    sides = f"{base} in BASE, {head} in HEAD{at}"
    if recommended.change == "same":
        return Finding("passed", sides)
    return Finding(
        "failed" if recommended.change == "changed" else "inconclusive", f"{sides}. {recommended.reason}"
    )
