"""The first thing a reader sees: which strategy, how sure, and what to do next, in one sentence each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from advisor import units
from advisor.profiles.conclusions import Recommendation
from advisor.profiles.schema import Failed, Predicted, Prediction, Profile, Result, Skipped
from advisor.report import words
from advisor.report.caveats import FIRST_FRAMES, HOST_ONLY, asked_for_one, doubt
from advisor.report.facts import Fact, measured_facts, predicted_facts
from advisor.report.failures import MEND, failed_rows, first_reason
from advisor.report.headlines import TONES, certainty_of, headline, names, uncapitalised
from advisor.report.tables import gaps

Basis = Literal["measured", "predicted", "nothing"]
_DECLINED = "the model declines every strategy"


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
    steps: tuple[str, ...] = ()
    """The reason in steps, where there are several."""


def verdicts(profile: Profile) -> tuple[Verdict, ...]:
    """The measured verdict of a GPU run; without a GPU, one predicted verdict per target device."""
    if doubt(profile) == "host only":
        return (_host_only(profile),)
    if profile.device.kind == "cpu":
        return tuple(prediction_verdict(profile, p) for p in profile.predictions) or (_unpredicted(profile),)
    return (measured_verdict(profile),)


def measured_verdict(profile: Profile) -> Verdict:
    """What the measured rows say, or that there are none."""
    chosen = profile.recommendation
    if chosen is None:
        return _unmeasured(profile)
    if doubt(profile) == "alone":
        return _alone(profile, None, chosen, measured_facts(profile, chosen))
    return Verdict(
        basis="measured",
        tone=TONES[chosen.verdict],
        device=words.name(profile.device.name),
        headline=headline(chosen),
        certainty=certainty_of(chosen, f"{units.percent(profile.method.confidence)} interval"),
        reason=words.line(chosen.reason),
        next_step=words.line(chosen.next_step),
        facts=measured_facts(profile, chosen),
        steps=_steps(chosen),
    )


def prediction_verdict(profile: Profile, prediction: Prediction) -> Verdict:
    """What the model expects of one device, with what stands against it in this very run."""
    against, chosen = doubt(profile, prediction), prediction.recommendation
    if chosen is None:
        return _declined(prediction, first_reason(profile))
    if against == "failed":
        return _doubtful(prediction, chosen)
    if against == "alone":
        return _alone(profile, prediction, chosen, predicted_facts(prediction, chosen))
    return predicted_verdict(prediction)


def predicted_verdict(prediction: Prediction) -> Verdict:
    """What the model expects of one device. The word "predicted" stands in the headline itself."""
    device, chosen = words.name(prediction.device.name), prediction.recommendation
    if chosen is None:
        return _declined(prediction, "")
    return Verdict(
        basis="predicted",
        tone=TONES[chosen.verdict],
        device=device,
        headline=f"Predicted: {uncapitalised(headline(chosen, predicted=True))}",
        certainty=certainty_of(chosen, "predicted range"),
        reason=words.line(chosen.reason),
        next_step=words.line(chosen.next_step),
        facts=predicted_facts(prediction, chosen),
        steps=_steps(chosen),
    )


def _steps(chosen: Recommendation) -> tuple[str, ...]:
    return tuple(map(words.line, chosen.steps)) if len(chosen.steps) > 1 else ()


def _declined(prediction: Prediction, failed: str) -> Verdict:
    """No prediction: because the workload failed, or for the reason that the model gives."""
    reasons = {row.reason for row in prediction.results if isinstance(row, Skipped)}
    why = failed or (words.line(reasons.pop(), 300) if len(reasons) == 1 else _DECLINED)
    return Verdict(
        "predicted",
        "none",
        words.name(prediction.device.name),
        f"Nothing predicted: {why}",
        reason=_first_reason(prediction.results),
    )


def _doubtful(prediction: Prediction, chosen: Recommendation) -> Verdict:
    """A prediction of a workload that failed here: never worded as a recommendation."""
    strategy = words.code(chosen.strategy) if chosen.strategy else ""
    tied = f"equal to {names(chosen.tied_with)}" if chosen.verdict == "near" and chosen.tied_with else ""
    best = ", ".join(filter(None, (f"{strategy} predicted as the best", tied)))
    return Verdict(
        basis="predicted",
        tone="inconclusive",
        device=words.name(prediction.device.name),
        headline=f"Doubtful: {best if strategy else uncapitalised(headline(chosen))}",
        reason=words.line(f"{FIRST_FRAMES}. {chosen.reason}"),
        facts=predicted_facts(prediction, chosen),
    )


def _alone(
    profile: Profile, prediction: Prediction | None, chosen: Recommendation, facts: tuple[Fact, ...]
) -> Verdict:
    """One strategy with figures: nothing was compared, so nothing is recommended."""
    strategy, asked = words.code(chosen.strategy or ""), asked_for_one(profile, prediction)
    done = "was predicted" if prediction else "was run"
    return Verdict(
        basis="predicted" if prediction else "measured",
        tone="none",
        device=words.name((prediction or profile).device.name),
        headline=f"Only {strategy} {done if asked else 'has figures'}: nothing was compared",
        reason=words.line(chosen.reason),
        next_step="Leave --strategy out to compare it with the others."
        if asked
        else words.line(chosen.next_step),
        facts=facts,
    )


def _host_only(profile: Profile) -> Verdict:
    return Verdict(
        "nothing",
        "none",
        words.name(profile.device.name),
        HOST_ONLY,
        reason="The buffers never leave the host: every strategy runs the same frame.",
        next_step="Wrap what is to run on the GPU in device(...), in Workload(frame=[...]).",
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
    alike = len({row.reason for row in failed_rows(profile)}) == 1
    why = first_reason(profile) if alike else f"{failed} failed, {skipped} skipped"
    return Verdict(
        "nothing",
        "none",
        device,
        f"Nothing could be measured: {why}",
        reason="" if alike else _first_reason(profile.results),
        next_step=MEND,
    )


def _first_reason(results: Iterable[Result | Predicted]) -> str:
    told = gaps(results)
    return f"`{told[0].strategies[0]}`: {told[0].reason}" if told else "No strategy was tried."


def _unpredicted(profile: Profile) -> Verdict:
    return Verdict(
        "nothing",
        "none",
        words.name(profile.device.name),
        "Nothing was measured on a GPU, and nothing was predicted for one",
        reason=_first_reason(profile.results) if not profile.measured() else "No target device was given.",
        next_step="Name a device with --target, or run the same command on a machine with a CUDA GPU.",
    )
