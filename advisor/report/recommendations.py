"""The first thing a reader sees: which strategy, how sure, and what to do next, in one sentence each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from advisor import units
from advisor.profiles.conclusions import Recommendation
from advisor.profiles.schema import Device, Predicted, Prediction, Profile, Result, Skipped
from advisor.report import words
from advisor.report.blocks import Verdict
from advisor.report.failures import FIRST_FRAMES, FIX, HOST_ONLY, first_reason
from advisor.report.headlines import headline as verdict_headline
from advisor.report.tables import gaps
from advisor.stats import EQUIVALENCE
from advisor.verdicts.caveats import asked_for_one, doubt, failed_rows
from advisor.verdicts.reasons import counted

_DECLINED = "no strategy can be predicted"
TONES: dict[str, Literal["clear", "tie", "inconclusive"]] = {
    "fastest": "clear",
    "near": "tie",
    "keep": "tie",
    "open": "inconclusive",
    "untrusted": "inconclusive",
}
"""How the page colours a verdict."""


def verdicts(profile: Profile) -> tuple[Verdict, ...]:
    """The measured verdict of a GPU run; without a GPU, one predicted verdict per target device."""
    if doubt(profile) == "host only":
        why = "The buffers never leave the host: every strategy runs the same frame."
        step = "Wrap the stages that should run on the GPU in device(...) in Workload(frame=[...])."
        return (nothing(words.name(profile.device.name), HOST_ONLY, why, step),)
    if profile.device.kind == "cpu":
        return tuple(prediction_verdict(profile, p) for p in profile.predictions) or (_unpredicted(profile),)
    return (measured_verdict(profile),)


def measured_verdict(profile: Profile) -> Verdict:
    """What the measured rows say, or that there are none."""
    chosen = profile.recommendation
    if chosen is None:
        return _unmeasured(profile)
    if chosen.strategy and doubt(profile) == "alone":
        return _alone(profile, None, chosen)
    interval = f"{units.percent(profile.method.confidence)} interval"
    return _verdict("measured", profile.device, chosen, headline(chosen), interval)


def prediction_verdict(profile: Profile, prediction: Prediction) -> Verdict:
    """What the model expects of one device, with what stands against it in this very run."""
    against, chosen = doubt(profile, prediction), prediction.recommendation
    if chosen is not None and against == "failed":
        return _doubtful(prediction, chosen)
    if chosen is not None and chosen.strategy and against == "alone":
        return _alone(profile, prediction, chosen)
    return predicted_verdict(prediction, first_reason(profile))


def predicted_verdict(prediction: Prediction, failed: str = "") -> Verdict:
    """What the model expects of one device. The word "predicted" stands in the headline itself.

    `failed` is why the workload failed, where that is why nothing is predicted.
    """
    chosen = prediction.recommendation
    if chosen is None:
        reasons = Counter(row.reason for row in prediction.results if isinstance(row, Skipped))
        most = max(reasons, key=reasons.__getitem__, default="")
        shared = 2 * reasons[most] > len(prediction.results)
        why = failed or (words.line(most, 300) if shared else _DECLINED)
        told = f"Nothing predicted: {why}"
        device = words.name(prediction.device.name)
        return replace(nothing(device, told, _first_reason(prediction.results)), basis="predicted")
    told = f"Predicted: {uncapitalised(headline(chosen, predicted=True))}"
    return _verdict("predicted", prediction.device, chosen, told, "predicted range")


def _verdict(
    basis: Literal["measured", "predicted"],
    device: Device,
    chosen: Recommendation,
    told: str,
    interval: str,
) -> Verdict:
    """`interval` is what that of the gain is called; it stays out where nothing is gained."""
    gains = chosen.interval is not None and chosen.strategy not in (None, chosen.baseline)
    return Verdict(
        basis=basis,
        tone=TONES[chosen.verdict],
        device=words.name(device.name),
        headline=told,
        certainty=f"{interval} {words.ratio_between(*chosen.interval)}" if gains and chosen.interval else "",
        reason=words.line(chosen.reason),
        next_step=words.line(chosen.next_step),
        steps=tuple(map(words.line, chosen.steps)) if len(chosen.steps) > 1 else (),
    )


def _doubtful(prediction: Prediction, chosen: Recommendation) -> Verdict:
    """A prediction of a workload that failed here: never worded as a recommendation."""
    told = uncapitalised(headline(chosen))
    if chosen.strategy:
        told = f"{words.code(chosen.strategy)} is predicted to be the best"
        if chosen.verdict == "near" and chosen.tied_with:
            told += f", equal to {words.listing(map(words.code, chosen.tied_with))}"
    return Verdict(
        basis="predicted",
        tone="inconclusive",
        device=words.name(prediction.device.name),
        headline=f"Doubtful: {told}",
        reason=words.line(f"{FIRST_FRAMES}. {chosen.reason}"),
    )


def _alone(profile: Profile, prediction: Prediction | None, chosen: Recommendation) -> Verdict:
    """One strategy with figures: nothing was compared, so nothing is recommended."""
    device, done, step = words.name((prediction or profile).device.name), "has figures", chosen.next_step
    if asked_for_one(profile, prediction):
        done = "was predicted" if prediction else "was run"
        step = "Omit --strategy to compare it with the others."
    told = f"Only {words.code(chosen.strategy or '')} {done}: nothing was compared"
    basis: Literal["measured", "predicted"] = "predicted" if prediction else "measured"
    return replace(nothing(device, told, words.line(chosen.reason), words.line(step)), basis=basis)


def nothing(device: str, headline: str, reason: str = "", next_step: str = "") -> Verdict:
    """Says that there is no verdict, why, and what to do."""
    return Verdict("nothing", "none", device, headline, reason=reason, next_step=next_step)


def _unmeasured(profile: Profile) -> Verdict:
    device, rows = words.name(profile.device.name), profile.measured()
    if rows:
        what = f"No recommendation: {words.count(len(rows), 'strategy')} measured"
        why = "There is nothing to compare it with, or the comparison was not made."
        return nothing(device, what, why, "Profile again with at least two strategies.")
    if len({row.reason for row in failed_rows(profile)}) == 1:
        return nothing(device, f"Nothing could be measured: {first_reason(profile)}", "", FIX)
    failed, skipped = (sum(r.status == s for r in profile.results) for s in ("failed", "skipped"))
    why = f"Nothing could be measured: {failed} failed, {skipped} skipped"
    return nothing(device, why, _first_reason(profile.results), FIX)


def _first_reason(results: Iterable[Result | Predicted]) -> str:
    told = gaps(results)
    return f"`{told[0].names[0]}`: {told[0].text}" if told else "No strategy was tried."


def _unpredicted(profile: Profile) -> Verdict:
    told = "Nothing was measured on a GPU, and nothing was predicted for one"
    why = "No target device was given." if profile.measured() else _first_reason(profile.results)
    step = "Name a device with --target, or run the same command on a machine with a CUDA GPU."
    return nothing(words.name(profile.device.name), told, why, step)


def headline(chosen: Recommendation, *, predicted: bool = False) -> str:
    """What to use and how sure, in one line, with what it gains; of a prediction it says that it is one."""
    if chosen.strategy is None or chosen.verdict in ("keep", "untrusted"):
        return decided(chosen)
    likely = "likely " * (predicted and chosen.verdict != "open")
    gain = "" if chosen.strategy == chosen.baseline else _faster(chosen, likely)
    # A prediction whose ranges overlap still names its best; it must not read as a verdict.
    open_one = predicted and chosen.verdict == "open"
    if open_one:
        return ", ".join(filter(None, (f"Likely {words.code(chosen.strategy)}", gain)))
    return decided(chosen, gain)


def decided(chosen: Recommendation, gain: str = "") -> str:
    """The verdict's own words; a name from a file may hold anything."""
    name, mix = chosen.strategy and words.name(chosen.strategy), chosen.faster_mix
    if mix is not None:
        shown = {"strategy": words.name(mix.strategy), "buffers": tuple(map(words.name, mix.buffers))}
        mix = mix.model_copy(update=shown)
    return verdict_headline(chosen.model_copy(update={"strategy": name, "faster_mix": mix}), gain)


def uncapitalised(sentence: str) -> str:
    """For the middle of another sentence."""
    return sentence[:1].lower() + sentence[1:]


def _faster(chosen: Recommendation, likely: str) -> str:
    if chosen.speedup is None or chosen.baseline is None:
        return ""
    told = direction(chosen)
    if told.startswith("as fast as"):
        return told
    if (noun := counted(chosen.objective).noun) != "time":
        return f"{words.code(chosen.baseline)} takes {units.ratio(chosen.speedup)} the {noun}"
    return f"{likely}{units.ratio(chosen.speedup)} {told}"


def direction(chosen: Recommendation) -> str:
    """What follows the ratio to the baseline: faster than it, or the speed of it."""
    speedup, base = chosen.speedup or 1.0, words.code(chosen.baseline or "")
    low, high = chosen.interval or (speedup, speedup)
    if (noun := counted(chosen.objective).noun) != "time":
        return f"the {noun} of {base}, relative to this strategy"
    if low <= 1 <= high and abs(speedup - 1) <= EQUIVALENCE:
        return f"as fast as {base}"
    if chosen.objective == "throughput":
        return f"the frames per second of {base}"
    return f"faster than {base}" if speedup >= 1 else f"the speed of {base}"
