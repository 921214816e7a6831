"""The first thing a reader sees: which strategy, how sure, and what to do next, in one sentence each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from advisor import units
from advisor.profiles import Failed, Measured, Predicted, Prediction, Profile, Recommendation, Result, Skipped
from advisor.report import words
from advisor.report.tables import gaps

Basis = Literal["measured", "predicted", "nothing"]


@dataclass(frozen=True)
class Fact:
    """One figure beside the verdict, with what qualifies it."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """A verdict in words. `tone` is how sure it is, `certainty` the interval behind the headline."""

    basis: Basis
    tone: Literal["clear", "tie", "inconclusive", "none"]
    device: str
    headline: str
    certainty: str = ""
    reason: str = ""
    next_step: str = ""
    facts: tuple[Fact, ...] = ()


def verdicts(profile: Profile) -> tuple[Verdict, ...]:
    """The measured verdict of a GPU run; without a GPU, one predicted verdict per target device."""
    if profile.device.kind == "cpu":
        return tuple(predicted_verdict(p) for p in profile.predictions) or (_unpredicted(profile),)
    return (measured_verdict(profile),)


def measured_verdict(profile: Profile) -> Verdict:
    """What the measured rows say, or that there are none."""
    chosen = profile.recommendation
    if chosen is None:
        return _unmeasured(profile)
    return Verdict(
        basis="measured",
        tone=chosen.verdict,
        device=words.name(profile.device.name),
        headline=_headline(chosen),
        certainty=_certainty(chosen, f"{units.percent(profile.method.confidence)} interval"),
        reason=words.line(chosen.reason),
        next_step=words.line(chosen.next_step),
        facts=_measured_facts(profile, chosen),
    )


def predicted_verdict(prediction: Prediction) -> Verdict:
    """What the model expects of one device. The word "predicted" stands in the headline itself."""
    device, chosen = words.name(prediction.device.name), prediction.recommendation
    if chosen is None:
        return Verdict(
            "predicted",
            "none",
            device,
            "Nothing predicted: the model declines every strategy",
            reason=_first_reason(prediction.results),
        )
    return Verdict(
        basis="predicted",
        tone=chosen.verdict,
        device=device,
        headline=f"Predicted: {_uncapitalised(_headline(chosen, predicted=True))}",
        certainty=_certainty(chosen, "predicted range"),
        reason=words.line(chosen.reason),
        next_step=words.line(chosen.next_step),
        facts=_predicted_facts(prediction, chosen),
    )


def _headline(chosen: Recommendation, *, predicted: bool = False) -> str:
    if chosen.strategy is None:
        return f"{_undecided(chosen)}{'' if predicted else ' by these measurements'}"
    strategy, kept = words.code(chosen.strategy), chosen.strategy == chosen.baseline
    if chosen.verdict == "inconclusive":
        # A prediction whose ranges overlap still names its bet; it must not read as a verdict.
        return ", ".join(filter(None, (f"Likely {strategy}", "" if kept else _faster(chosen))))
    tied = f"tied with {_names(chosen.tied_with)}" if chosen.tied_with else ""
    if kept:
        return f"Keep {strategy}: {tied or f'nothing {_tried(predicted)} is faster'}"
    why = ", ".join(filter(None, (tied, _faster(chosen, "likely " if predicted else ""))))
    return f"Use {strategy}: {why}" if why else f"Use {strategy}"


def _tried(predicted: bool) -> str:
    return "predicted" if predicted else "tried"


def _uncapitalised(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _undecided(chosen: Recommendation) -> str:
    if len(chosen.tied_with) > 1:
        return f"{_names(chosen.tied_with)} cannot be told apart"
    return "The best strategy cannot be told"


def _names(strategies: tuple[str, ...]) -> str:
    return words.listing(map(words.code, strategies))


def _faster(chosen: Recommendation, likely: str = "") -> str:
    if chosen.speedup is None or chosen.baseline is None:
        return ""
    direction = "faster than" if chosen.speedup >= 1 else "the speed of"
    return f"{likely}{units.ratio(chosen.speedup)} {direction} {words.code(chosen.baseline)}"


def _certainty(chosen: Recommendation, kind: str) -> str:
    if chosen.interval is None or chosen.strategy in (None, chosen.baseline):
        return ""
    return f"{kind} {words.ratio_between(*chosen.interval)}"


def _measured_facts(profile: Profile, chosen: Recommendation) -> tuple[Fact, ...]:
    row = profile.measured().get(chosen.strategy or "")
    if row is None:
        return ()
    base = profile.measured().get(chosen.baseline or "")
    compared = base is not None and base is not row
    return (
        Fact("Time per frame", units.seconds(row.median_seconds), _instead(base, "time") if compared else ""),
        Fact(
            "Memory", units.size(row.footprint.physical_bytes), _instead(base, "memory") if compared else ""
        ),
        Fact("Set-up", units.seconds(row.setup_seconds), "once, before the frames"),
        Fact(
            "Frames measured",
            f"{len(row.frame_seconds):,}",
            f"in {words.count(len(row.frames_per_round), 'process', 'processes')}",
        ),
    )


def _instead(base: Measured | None, what: Literal["time", "memory"]) -> str:
    if base is None:
        return ""
    value = (
        units.seconds(base.median_seconds) if what == "time" else units.size(base.footprint.physical_bytes)
    )
    return f"{words.code(base.strategy)}: {value}"


def _predicted_facts(prediction: Prediction, chosen: Recommendation) -> tuple[Fact, ...]:
    rows = {r.strategy: r for r in prediction.results if isinstance(r, Predicted)}
    row = rows.get(chosen.strategy or "")
    if row is None:
        return ()
    between = words.seconds_between(row.low_seconds, row.high_seconds)
    return (
        Fact("Predicted time per frame", units.seconds(row.likely_seconds), f"range {between}"),
        Fact("Memory", units.size(row.physical_bytes)),
        Fact("Largest part", words.name(row.dominant), units.seconds(row.terms[row.dominant])),
    )


def _unmeasured(profile: Profile) -> Verdict:
    device, rows = words.name(profile.device.name), profile.measured()
    if rows:
        what = f"{words.count(len(rows), 'strategy', 'strategies')} measured"
        return Verdict(
            "nothing",
            "none",
            device,
            f"No recommendation: {what}",
            reason="There is nothing to compare, or the comparison was not made.",
            next_step="Profile again with at least two strategies.",
        )
    failed = sum(isinstance(r, Failed) for r in profile.results)
    skipped = sum(isinstance(r, Skipped) for r in profile.results)
    return Verdict(
        "nothing",
        "none",
        device,
        f"Nothing could be measured: {failed} failed, {skipped} skipped",
        reason=_first_reason(profile.results),
        next_step="Mend what the failed rows name, then profile again.",
    )


def _first_reason(results: Iterable[Result | Predicted]) -> str:
    told = gaps(results)
    return f"`{told[0].strategy}`: {told[0].reason}" if told else "No strategy was tried."


def _unpredicted(profile: Profile) -> Verdict:
    return Verdict(
        "nothing",
        "none",
        words.name(profile.device.name),
        "Nothing was measured on a GPU, and nothing was predicted for one",
        reason=_first_reason(profile.results) if not profile.measured() else "No target device was given.",
        next_step="Name a device with --target, or run the same command on a machine with a CUDA GPU.",
    )
