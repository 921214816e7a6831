"""The first thing a reader sees: which strategy, how sure, and what to do next, in one sentence each."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from advisor import units
from advisor.profiles.conclusions import Recommendation
from advisor.profiles.schema import Failed, Predicted, Prediction, Profile, Result, Skipped
from advisor.profiles.sweeps import ProfileSet
from advisor.report import words
from advisor.report.blocks import Failure, Tone, Verdict
from advisor.report.tables import gaps
from advisor.stats import EQUIVALENCE
from advisor.verdicts.measured import baseline, speeds
from advisor.verdicts.reasons import all_failed, asked_for_one, counted, doubt, failed_rows, shown_bound

FIX = "Fix the error above and run again."
CONFIRM = "Run the same command on the device to confirm."
FIGURES = re.compile(r"\d+(\.\d+)?")
"""Figures in reasons: reasons that differ only in these are joined."""
_LIMIT = re.compile(r" --max-seconds[= ]\S+")
_FRAME = re.compile(r'\s*File ".+", line \d+')
_EXCERPT_LINES, _EXCERPT_WIDTH = 5, 74
FIRST_FRAMES = "The workload failed under every strategy here; predictions are based on its first frames"
HOST_ONLY = "No stage of a frame runs on the device, so the memory strategy does not matter"
UNSURE = "Confidence: none. No strategy has a time on a GPU."
_DECLINED = "no strategy can be predicted"
TONES: dict[str, Tone] = {"fastest": "clear", "near": "tie", "keep": "tie"}
"""How the page colours a verdict."""


def verdicts(profile: Profile) -> tuple[Verdict, ...]:
    """The measured verdict of a GPU run; without a GPU, one predicted verdict per target device."""
    if profile.device.kind != "cpu":
        return (verdict_of(profile),)
    if profile.predictions:
        return tuple(verdict_of(profile, prediction) for prediction in profile.predictions)
    device = words.name(profile.device.name)
    if doubt(profile) == "host only":
        return (_host_only(device),)
    headline = "Nothing was measured on a GPU, and nothing was predicted for one"
    why = "No target device was given." if profile.measured() else _first_reason(profile.results)
    step = "Name a device with --target, or run the same command on a machine with a CUDA GPU."
    return (nothing(device, headline, why, step, UNSURE),)


def verdict_of(profile: Profile, prediction: Prediction | None = None) -> Verdict:
    """The measured verdict, or the predicted one for a device; or why this run does not support one."""
    concluded, against = prediction or profile, doubt(profile, prediction)
    device, chosen = words.name(concluded.device.name), concluded.recommendation
    basis: Literal["measured", "predicted"] = "predicted" if prediction else "measured"
    if against == "host only":
        return _host_only(device)
    if chosen is None:
        return _unpredicted(profile, prediction) if prediction else _unmeasured(profile)
    if prediction and against == "failed":  # never worded as a recommendation
        best = f"{words.code(chosen.strategy)} is predicted to be the best" if chosen.strategy else ""
        text = f"Doubtful: {best or uncapitalised(headline(chosen))}"
        why = words.line(f"{FIRST_FRAMES}. {chosen.reason}")
        return Verdict("predicted", "inconclusive", device, text, reason=why)
    if chosen.strategy and against == "alone":  # nothing was compared, so nothing is recommended
        done, step = "has figures", chosen.next_step
        if asked_for_one(profile, prediction):
            done = "was predicted" if prediction else "was run"
            step = "Omit --strategy to compare it with the others."
        text = f"Only {words.code(chosen.strategy)} {done}: nothing was compared"
        return replace(nothing(device, text, words.line(chosen.reason), words.line(step)), basis=basis)
    text, sure, step = "", "", words.line(chosen.next_step)
    if prediction:
        text = f"Predicted: {uncapitalised(headline(chosen, predicted=True))}"
    else:
        chosen = with_gain(chosen, profile)
        text, sure = headline(chosen), remark(chosen, profile.method.confidence)
        if chosen.strategy and chosen.verdict == "open":
            # The command that would settle it; four times the time, which halves intervals, if none is known.
            limit, more = profile.method.max_seconds, chosen.seconds_more
            wanted = 10 * math.ceil((limit + 1.2 * more if more else max(4 * limit, 120)) / 10)
            command = f"{_LIMIT.sub('', profile.command)} --max-seconds {wanted}"
            step = f"Run again: {words.code(command, 300)}"
    openings = tuple(f"{chosen.strategy} {verb} " for verb in ("takes", "is predicted to take", "is within"))
    steps = " ".join(step for step in chosen.steps if not step.startswith(openings))  # the chart has it
    reason = words.line(steps if chosen.steps else chosen.reason, 2_000)
    tone = TONES.get(chosen.verdict, "inconclusive")
    return Verdict(basis, tone, device, text, reason, step, sure[:1].upper() + sure[1:])


def _host_only(device: str) -> Verdict:
    why = "The buffers never leave the host: every strategy runs the same frame."
    step = "Wrap the stages that should run on the GPU in device(...) in Workload(frame=[...])."
    return nothing(device, HOST_ONLY, why, step)


def with_gain(chosen: Recommendation, profile: Profile) -> Recommendation:
    """Adds the gain over a baseline that was dropped before the final, which the verdict lacks."""
    base, over = baseline(profile), speeds(profile).get(chosen.strategy or "")
    if chosen.speedup is not None or base is None or over is None:
        return chosen
    return chosen.model_copy(update={"speedup": over.value, "baseline": base.strategy})


def nothing(device: str, headline: str, reason: str = "", next_step: str = "", remark: str = "") -> Verdict:
    return Verdict("nothing", "none", device, headline, reason=reason, next_step=next_step, remark=remark)


def _unpredicted(profile: Profile, prediction: Prediction) -> Verdict:
    reasons = Counter(row.reason for row in prediction.results if isinstance(row, Skipped))
    most = max(reasons, key=reasons.__getitem__, default="")
    shared = words.line(most, 300) if 2 * reasons[most] > len(prediction.results) else _DECLINED
    text = f"Nothing predicted: {_failure_of_all(profile) or shared}"
    verdict = nothing(words.name(prediction.device.name), text, _first_reason(prediction.results))
    return replace(verdict, basis="predicted")


def _unmeasured(profile: Profile) -> Verdict:
    device, rows = words.name(profile.device.name), profile.measured()
    if rows:
        what = f"No recommendation: {words.count(len(rows), 'strategy')} measured"
        why = "There is nothing to compare it with, or the comparison was not made."
        return nothing(device, what, why, "Profile again with at least two strategies.")
    if len({row.reason for row in failed_rows(profile)}) == 1:  # the failure itself says what to do
        return nothing(device, f"Nothing could be measured: {_failure_of_all(profile)}", remark=UNSURE)
    failed, skipped = (sum(r.status == s for r in profile.results) for s in ("failed", "skipped"))
    what = f"Nothing could be measured: {failed} failed, {skipped} skipped"
    step = "" if failed else "Run `advisor doctor` to see what this machine can measure."
    return nothing(device, what, _first_reason(profile.results), step, UNSURE)


def _failure_of_all(profile: Profile) -> str:
    return words.line(failed_rows(profile)[0].reason, 300) if all_failed(profile) else ""


def _first_reason(results: Iterable[Result | Predicted]) -> str:
    items = gaps(results)
    return f"`{items[0].names[0]}`: {items[0].text}" if items else "No strategy was tried."


_CLAIMS = {
    "fastest": "every other{among} is {worse}",
    "near": "no other{among} is more than {bound} {better}",
    "keep": "no other{among} gains more than {bound}",
    "open": "another{among} may be {bound} {better}",
}
"""How sure each kind of verdict is."""
_AMONG = {"footprint": " of those with the least memory", "budget": " that fits the memory budget", "": ""}
"""The strategies compared by time, where memory ruled out others that may be faster."""


def headline(chosen: Recommendation, *, predicted: bool = False) -> str:
    """`Use pinned: 1.72× faster than pageable (1.6 to 1.8)`; names in backquotes."""
    name, kind = words.code(chosen.strategy or ""), chosen.verdict
    gain = "" if chosen.strategy == chosen.baseline else _faster(chosen, predicted)
    leads = "is simplest" if chosen.faster_mix and chosen.faster_mix.is_sure else "leads"
    use = {"keep": f"Keep {name}", "open": f"Undecided: {name} {leads}"}.get(kind, f"Use {name}")
    if chosen.strategy is None:
        fits = not chosen.excluded
        return counted(chosen.objective).lacking if fits else "No strategy fits the memory budget"
    if kind == "untrusted":
        return "This run cannot be trusted: a strategy measured twice differs from itself"
    if chosen.least_memory:
        return f"{'Keep' if kind == 'keep' else 'Use'} {name}: it needs the least memory"
    if predicted and kind == "open":  # ranges that overlap are no verdict
        return ", ".join(filter(None, (f"Likely {name}", gain)))
    if kind == "open":
        return f"{use}, {gain}" if gain else f"{use}; {_claim(chosen) or 'too few measurements to tell more'}"
    return f"{use}: {_claim(chosen) if kind == 'keep' or not gain else gain}"


def remark(chosen: Recommendation, confidence: float) -> str:
    """The confidence of a headline that states a gain, and what is, or looks, faster than the strategy."""
    claim = "" if chosen.least_memory or chosen.strategy is None else _claim(chosen)
    certainty = f"{claim} ({units.percent(confidence)})" * (claim not in headline(chosen))
    mix, is_open = chosen.faster_mix, chosen.verdict == "open"
    if is_open and mix is None and chosen.fastest not in (None, chosen.strategy):
        better = counted(chosen.objective).better
        leader = f"{words.code(chosen.fastest)} looks {better}, with less certainty"
        return "; ".join(filter(None, (certainty, leader)))
    if mix is None or chosen.verdict == "untrusted" or not (is_open or mix.is_sure):
        return certainty
    ratio, low, high = (f"{(r - 1) * 100:.0f}".replace("-", units.MINUS) for r in (mix.ratio, *mix.interval))
    than, figures = words.code(mix.strategy), f"{ratio} % faster ({low} to {high})"
    if is_open:
        beside = f"{than} {'is' if mix.is_sure else 'looks'} {figures}" * (ratio != "0")
    else:
        beside = f"simpler than {than}, which is {figures}"
    return "; ".join(filter(None, (certainty, beside)))


def _claim(chosen: Recommendation) -> str:
    if chosen.verdict not in _CLAIMS or (chosen.verdict == "open" and chosen.bound is None):
        return ""
    figure = counted(chosen.objective)
    among = _AMONG["footprint" if chosen.objective == "footprint" else "budget" if chosen.excluded else ""]
    claim = _CLAIMS[chosen.verdict]
    bound = shown_bound(chosen.bound)
    return claim.format(better=figure.better, worse=figure.worse, bound=bound, among=among)


def uncapitalised(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _faster(chosen: Recommendation, predicted: bool) -> str:
    """1.72× faster than `pageable` (1.6 to 1.8); or as fast as it, the speed of it, what it takes more of."""
    speedup, base, noun = chosen.speedup, words.code(chosen.baseline or ""), counted(chosen.objective).noun
    if speedup is None or chosen.baseline is None:
        return ""
    low, high = chosen.interval or (speedup, speedup)
    between = f" ({words.gain_between(low, high)})" if chosen.interval and words.known(low, high) else ""
    if noun != "time":
        return f"{base} takes {units.ratio(speedup)} the {noun}{between}"
    if low <= 1 <= high and abs(speedup - 1) <= EQUIVALENCE:
        return f"as fast as {base}{between}"
    than = f"faster than {base}" if speedup >= 1 else f"the speed of {base}"
    if chosen.objective == "throughput":
        than = f"the frames per second of {base}"
    return f"{'likely ' * (predicted and chosen.verdict != 'open')}{units.ratio(speedup)} {than}{between}"


def _key(reason: str, detail: str) -> tuple[str, str]:
    """The same for failures that differ only in figures."""
    return FIGURES.sub("0", reason), excerpt(detail)


def failures(profile: Profile) -> tuple[Failure, ...]:
    alike = words.grouped(failed_rows(profile), lambda row: _key(row.reason, row.detail)).values()
    every = all_failed(profile) and len(alike) == 1
    before, after = ("Every strategy that was run (", ") failed") if every else ("", " failed")
    return tuple(_failure(rows, before, after) for rows in alike)


def _failure(rows: Sequence[Failed], before: str, after: str) -> Failure:
    first, who = rows[0], words.listing(dict.fromkeys(words.code(row.strategy) for row in rows))
    headline = f"{before}{who}{after}: {words.line(first.reason, 500)}"
    return Failure(headline, excerpt(first.detail), words.line(first.next_step, 300) or FIX)


def sweep_failures(sweep: ProfileSet, parameter: str = "") -> tuple[Failure, ...]:
    """Each failure once, with its strategies and values, or workloads; with several devices, once on each.

    `parameter` as shown.
    """
    if len(sweep.machines) > 1:
        machines = ((device.name, replace(sweep, points=own)) for device, own in sweep.machines)
        return tuple(f for name, own in machines for f in on_device(sweep_failures(own, parameter), name))
    which = f"{parameter} = " * bool(parameter)
    failed = [point for point in sweep.points if point.profile is None and point.status == "failed"]
    rows = [(p.value, row) for p in sweep.points if p.profile for row in failed_rows(p.profile)]
    failures = []
    for where in words.grouped(failed, lambda point: _key(point.reason, point.detail)).values():
        first, values = where[0], words.listing([words.value(p.value) for p in where], limit=12)
        headline = f"{which}{values} failed: {words.line(first.reason, 500)}"
        failures.append(Failure(headline, excerpt(first.detail), FIX, words.block(first.detail)))
    for same in words.grouped(rows, lambda pair: _key(pair[1].reason, pair[1].detail)).values():
        values = words.listing(dict.fromkeys(words.value(value) for value, _ in same), limit=12)
        failures.append(_failure([row for _, row in same], "", f" failed at {which}{values}"))
    return tuple(failures)


def on_device(failures: Iterable[Failure], device: str) -> tuple[Failure, ...]:
    return tuple(replace(f, headline=f"{f.headline} (on {words.name(device)})") for f in failures)


def excerpt(detail: str) -> str:
    """The last frame of a traceback and the error; nothing where there is none."""
    lines = [line for line in words.block(detail).splitlines() if set(line) - set(" ^~")]
    frames = [i for i, line in enumerate(lines) if _FRAME.match(line)]
    if not frames:
        return ""
    last = lines[frames[-1] :]
    excerpt_lines = last if len(last) <= _EXCERPT_LINES else [*last[:2], "  …", *last[3 - _EXCERPT_LINES :]]
    return "\n".join(t if len(t) <= _EXCERPT_WIDTH else f"{t[: _EXCERPT_WIDTH - 1]}…" for t in excerpt_lines)
