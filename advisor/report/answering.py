"""The answer of a profile for each of its devices: see `answer`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from advisor import stats, units
from advisor.model.measured import by_class
from advisor.profiles.conclusions import Recommendation
from advisor.profiles.schema import Device, Measured, Predicted, Prediction, Profile
from advisor.report import words
from advisor.report.advising import findings, recommendations, written
from advisor.report.answer import (
    SNIPPET_LINES,
    Answer,
    Answers,
    Bar,
    Change,
    Part,
    marks,
    parts_of,
    where_time_goes,
)
from advisor.report.blocks import SIGNS, Fact, Facts, Finding, Verdict
from advisor.report.recommendations import measured_verdict, prediction_verdict, verdicts
from advisor.report.tables import apart, gaps, overlaps
from advisor.rules.snippets.writing import snippet, variants
from advisor.strategies.mixes import strategies_of
from advisor.strategies.registry import BASELINE
from advisor.verdicts.choice import SAME_MEMORY
from advisor.verdicts.comparing.rows import host_noise
from advisor.verdicts.final import known
from advisor.verdicts.measured import baseline, predicted_speed, speeds
from advisor.verdicts.predicted import simulations
from advisor.verdicts.reasons import all_failed, undoubted
from advisor.verdicts.reasons import counted as counts
from advisor.verdicts.scores import counted, figure_of, seconds_of

ADVICES = 3
Parts = Mapping[str, tuple[Part, ...]]
_SCREENED = re.compile(r"screened out: ([\d.,]+) times the best time in screening")
_HEART = ("# Once.", "class Slot:")
"""How the part of a snippet begins that is not helpers."""


def answers(profile: Profile, *, targets_first: bool = False) -> Answers:
    """One answer where something was measured on a GPU; else, or if asked for, one for each target device."""
    if profile.device.kind != "cpu" and not (targets_first and profile.predictions):
        return Answers((measured_answer(profile),))
    predicted = tuple(predicted_answer(profile, prediction) for prediction in profile.predictions)
    if not predicted:
        return Answers((Answer(verdicts(profile)[0]),))
    # What to use where, in one sentence; nothing where each device has its own doubts.
    sentence = words.on_devices(
        (f"{'likely' if each.likely else 'use'} {words.code(each.chosen)}", each.verdict.device)
        for each in (answer for answer in predicted if answer.change or answer.unchanged)
    )
    if not sentence or len(predicted) == 1:
        return Answers(predicted)
    tones = {answer.verdict.tone for answer in predicted}
    tone = predicted[0].verdict.tone if len(tones) == 1 else "tie"
    return Answers(predicted, (Verdict("predicted", tone, "", f"Predicted: {sentence}"),))


def beside(profile: Profile, *, targets_first: bool) -> Facts:
    """One line on the measurements, next to predictions; or on the predictions, next to measurements."""
    if profile.device.kind == "cpu" or not profile.predictions:
        return Facts(())
    if targets_first:
        verdict = measured_verdict(profile)
        return Facts((Fact(f"Measured on {verdict.device}", verdict.headline),))
    each = (prediction_verdict(profile, prediction) for prediction in profile.predictions)
    return Facts(tuple(Fact(verdict.device, verdict.headline) for verdict in each))


def measured_answer(profile: Profile) -> Answer:
    marked = undoubted(profile)
    chosen, verdict, base = marked.recommendation, verdicts(profile)[0], baseline(profile)
    best = profile.recommendation.strategy if profile.recommendation else None
    how = counts(profile.preferences.objective)
    parts = parts_of(counted(marked)) if how.noun == "time" else {}
    if verdict.tone != "none":
        verdict = _explained(verdict, parts, best, base.strategy if base else "")
    bars = tuple(measured_bars(counted(marked), overlaps(profile), parts))
    figure = f"{how.noun} per frame" if how.noun != "99th percentile" else "99th percentile of a frame"
    against = words.name(base.strategy) if base else ""
    answer = Answer(verdict, bars, figure, against, _memory_of(profile.device))
    advice = _advice(profile, profile.device.name)
    answer = replace(answer, advice=advice, missing=gaps(profile.results))
    return drawn(_with_change(answer, profile, profile.device, chosen))


def _explained(verdict: Verdict, parts: Parts, best: str | None, base: str) -> Verdict:
    where = where_time_goes(parts.get(best or "", ()), best or "", parts.get(base, ()), base)
    steps = tuple(filter(None, (*(verdict.steps or (verdict.reason,)), where)))
    return replace(verdict, reason=" ".join(steps), steps=steps if len(steps) > 1 else ())


def predicted_answer(profile: Profile, prediction: Prediction) -> Answer:
    at = profile.predictions.index(prediction)
    marked = counted(undoubted(profile)).predictions[at]
    chosen, notes = marked.recommendation, overlaps(profile, prediction)
    verdict, indifference = prediction_verdict(profile, prediction), profile.preferences.indifference
    parts = parts_of(prediction) if counts(profile.preferences.objective).noun == "time" else {}
    if verdict.tone != "none" and prediction.recommendation and prediction.recommendation.strategy:
        base = prediction.recommendation.baseline or BASELINE
        verdict = _explained(verdict, parts, prediction.recommendation.strategy, base)
        verdict = replace(verdict, remark=_likely(prediction, indifference))
    bars = tuple(predicted_bars(marked, notes, indifference, parts))
    against = words.name((chosen and chosen.baseline) or BASELINE)
    advice = () if all_failed(profile) else _advice(profile, prediction.device.name)
    answer = Answer(verdict, bars, against=against, memory_of=_memory_of(prediction.device))
    answer = replace(answer, advice=advice, missing=gaps(prediction.results))
    name = chosen.strategy if chosen and profile.device.kind == "cpu" else None
    rows = (row for row in prediction.results if isinstance(row, Predicted) and row.strategy == name)
    path = next((_apart(row) for row in rows if row.latency_seconds is None), None)
    return drawn(_with_change(replace(answer, apart=path), profile, prediction.device, chosen))


def _apart(row: Predicted) -> Fact:
    """Predicted time of the device path, and of the host stages, which vary between runs on this CPU."""
    host = row.host_seconds
    noise = units.percent(host_noise(row) / host) if host else ""
    stages = f"host stages {_within(host, row.host_interval)}, from this CPU's times (±{noise} between runs)"
    path = _within(sum(row.terms.values()) - host, row.device_path_interval)
    return Fact("Copies, kernels and waits", path, stages if host else "no host stages")


def _within(seconds: float, interval: tuple[float, float] | None) -> str:
    return units.seconds(seconds) + (f" ({' to '.join(map(units.seconds, interval))})" if interval else "")


def _with_change(answer: Answer, profile: Profile, device: Device, chosen: Recommendation | None) -> Answer:
    """Adds the code for the recommended strategy, or a sentence that no change is needed."""
    if chosen is None or chosen.strategy is None or chosen.verdict == "untrusted":
        return answer
    name, base = words.name(chosen.strategy), chosen.baseline or BASELINE
    if chosen.strategy == base:
        return replace(answer, unchanged=f"Nothing to change: keep {words.code(base)}.")
    mine, fired = (device.name, chosen.strategy), (a for a in profile.advice if a.outcome == "advice")
    stored = [a for a in fired if a.snippet and (a.device, a.strategy) == mine]
    mixes = strategies_of(profile)
    text = stored[0].snippet if stored else snippet(chosen.strategy, profile.workload, device, mixes)
    if not text:
        return answer
    others = stored[0].variants if stored else variants(chosen.strategy, profile.workload, device, mixes)
    code = words.block(text)
    lines = code.splitlines()  # the excerpt goes from the buffers on, without imports and helpers
    excerpt = lines[next((i for i, line in enumerate(lines) if line.startswith(_HEART)), 0) :]
    if len(excerpt) > SNIPPET_LINES:
        excerpt = [*excerpt[: SNIPPET_LINES - 1], f"# ... {len(excerpt) - SNIPPET_LINES + 1} more lines"]
    change = Change(name, "\n".join(excerpt), code, written(others))
    if chosen.verdict not in ("fastest", "near"):
        return replace(answer, change=change)
    apply = f"Apply the {words.count(change.lines, 'line')} in report.html."
    verdict = replace(answer.verdict, next_step=apply) if not answer.predicted else answer.verdict
    return replace(answer, change=change, verdict=verdict)


FEW = 5
"""Published choices below which a share of them means little."""


def _likely(prediction: Prediction, indifference: float) -> str:
    """Confidence in a prediction: the share of simulations, and the model's accuracy on families left out."""
    kind = prediction.device.memory_class or "discrete"
    accuracy = by_class().get(kind)
    choices = words.count(accuracy.choices, "published case") if accuracy else ""
    checked = f"checked on {choices}" if accuracy else "not checked"
    if accuracy and accuracy.choices >= FEW and accuracy.right_share is not None:
        checked = f"right in {units.percent(accuracy.right_share)} of {choices}"
    checked = f"the model was {checked} of {kind} memory"
    if prediction.confidence is None:
        return f"T{checked[1:]}"
    near = f"Within {indifference * 100:g} % of the fastest in {simulations(prediction.confidence)}"
    return f"{near}; {checked}"


def _advice(profile: Profile, device: str) -> tuple[Finding, ...]:
    """Advice for the recommended strategy or the baseline: each change once, the largest saving first."""
    here, chosen = words.name(device), recommendations(profile).get(device)
    advice = (f for f in findings(profile) if f.outcome == "advice" and here in f.devices and not f.again)
    over = ("", BASELINE, words.name(chosen.strategy) if chosen and chosen.strategy else "")
    mine = [finding for finding in advice if finding.over in over]
    return tuple(sorted(mine, key=lambda finding: -finding.seconds))[:ADVICES]


BRIEF = 5
"""Bars on a phone."""
_REACH = 4.0
"""The chart ends at this multiple of the best, or at the baseline if that is slower."""


def measured_bars(profile: Profile, notes: Mapping[str, str], parts: Parts) -> Iterator[Bar]:
    """Contestants clearly within the indifference with the same memory share a bar; others have their own.

    The rows are as the objective counts them; `notes` are what `overlaps` says of them.
    """
    rows, chosen, base = profile.measured(), profile.recommendation, baseline(profile)
    objective, ratios = profile.preferences.objective, speeds(profile)
    name = chosen.strategy if chosen else None
    signs = marks(profile)
    for group in _joined(rows, chosen.groups if chosen else (), name):
        row = rows[group[0]]
        figures = figure_of(row, objective)
        if figures is None:
            continue
        size = row.footprint.physical_bytes
        is_baseline = base is not None and base.strategy in group
        bar = _bar(group, figures, size, ratios.get(row.strategy), is_baseline, joules=objective == "energy")
        tied = any(signs.get(one) == SIGNS["rival"] for one in group)
        bar = replace(bar, chosen=name in group and name in signs, tied=tied)
        note = words.line(_SCREENED.sub(r"dropped early (\1× the best)", row.outside), 100)
        latency = notes.get(row.strategy, "")
        its_parts = parts.get(row.strategy, ())
        yield replace(bar, note=note, latency=latency, parts=its_parts)


def _joined(
    rows: dict[str, Measured], groups: Sequence[Sequence[str]], chosen: str | None
) -> list[tuple[str, ...]]:
    """Groups of strategies that share a bar; the recommended one leads its group, else the fastest."""
    bars: list[tuple[str, ...]] = []
    grouped = [[name for name in group if name in rows] for group in groups]
    alone = [[name] for name in rows if not any(name in group for group in grouped)]
    for group in [*grouped, *alone]:
        ordered = sorted(group, key=lambda name: (name != chosen, rows[name].median_seconds))
        alike = words.grouped(ordered, lambda name: units.size(rows[name].footprint.physical_bytes))
        bars += [tuple(same) for same in alike.values()]
    return bars


def predicted_bars(
    prediction: Prediction, notes: Mapping[str, str], indifference: float, parts: Parts
) -> Iterator[Bar]:
    """Strategies share a bar if likely times are within the indifference and memory is the same."""
    chosen = prediction.recommendation
    name, base_name = (chosen.strategy, chosen.baseline or BASELINE) if chosen else (None, BASELINE)
    rows = sorted(
        (row for row in prediction.results if isinstance(row, Predicted)), key=lambda row: row.likely_seconds
    )
    base = next((row for row in rows if row.strategy == base_name), None)
    for group in _alike(rows, base, indifference):
        first = next((row for row in group if row.strategy == name), group[0])
        names = (first.strategy, *(row.strategy for row in group if row is not first))
        speed = predicted_speed(base, first) if base else None
        bar = _bar(names, seconds_of(first), first.physical_bytes, speed, base in group)
        latency = notes.get(first.strategy, "")
        its_parts = parts.get(first.strategy, ())
        yield replace(bar, chosen=first.strategy == name, latency=latency, parts=its_parts)


def _alike(rows: Sequence[Predicted], base: Predicted | None, indifference: float) -> list[list[Predicted]]:
    """Groups of rows, fastest first, that count as equal to the first of each; the baseline stays alone."""

    def is_like(row: Predicted, first: Predicted) -> bool:
        near = row.likely_seconds <= first.likely_seconds * (1 + indifference)
        same = abs(row.physical_bytes - first.physical_bytes) <= SAME_MEMORY * row.physical_bytes
        return near and same and (base is None or base not in (row, first))

    groups: list[list[Predicted]] = []
    for row in rows:
        home = next((group for group in groups if is_like(row, group[0])), None)
        if home is None:
            groups.append(home := [])
        home.append(row)
    return groups


def _bar(
    names: Sequence[str],
    figures: tuple[float, float, float],
    memory: int | None,
    speed: stats.Ratio | None,
    baseline: bool,
    *,
    joules: bool = False,
) -> Bar:
    amount, low, high = figures
    between = known(speed) if speed and not baseline else None
    return Bar(
        tuple(map(words.name, names)),
        *figures,
        units.joules(amount) if joules else units.seconds(amount),
        "" if joules else words.seconds_between(low, high),
        units.size(memory) if memory is not None else "",
        memory or 0,
        ratio=units.ratio(1.0 if baseline else speed.value) if speed else "",
        ratio_between=words.ratio_between(*between).replace("× to ", "–") if between else "",
        speed=speed.value if speed else None,
        baseline=baseline,
    )


def _memory_of(device: Device) -> str:
    return "host and device" if apart(device) else ""


def drawn(answer: Answer) -> Answer:
    """Sorts the bars by time, those outside the final last; sets the axis and the bars that a phone shows."""
    bars = sorted(answer.bars, key=lambda bar: (bool(bar.note), bar.amount))
    if not bars:
        return answer
    ranked = sorted(bars, key=lambda bar: not (bar.chosen or bar.baseline))[:BRIEF]
    base = next((bar.amount for bar in bars if bar.baseline), bars[0].amount)
    within = max(base, max(bar.amount for bar in bars if bar.amount <= _REACH * bars[0].amount))
    drawn = tuple(replace(bar, brief=bar in ranked) for bar in bars)
    return replace(answer, bars=drawn, extent=1.12 * within)
