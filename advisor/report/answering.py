"""The answer of a profile for each of its devices: see `answer`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from advisor import stats, units
from advisor.model.measured import by_class
from advisor.profiles.conclusions import Objective, Recommendation
from advisor.profiles.schema import Device, Measured, MemoryClass, Predicted, Prediction, Profile
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
from advisor.report.blocks import SIGNS, Fact, Facts, Verdict
from advisor.report.recommendations import verdict_of, verdicts
from advisor.report.tables import gaps, overlaps
from advisor.rules.base import shares_dram
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
from advisor.verdicts.scores import bytes_of, counted, figure_of, seconds_of

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
        verdict = verdict_of(profile)
        return Facts((Fact(f"Measured on {verdict.device}", verdict.headline),))
    each = (verdict_of(profile, prediction) for prediction in profile.predictions)
    return Facts(tuple(Fact(verdict.device, verdict.headline) for verdict in each))


def measured_answer(profile: Profile) -> Answer:
    marked, noun = counted(undoubted(profile)), counts(profile.preferences.objective).noun
    rows, chosen = marked.measured(), marked.recommendation
    # Contestants clearly within the indifference with the same memory share a bar; others have their own. The
    # recommended one leads its group, else the fastest.
    grouped = [[name for name in group if name in rows] for group in (chosen.groups if chosen else ())]
    alone = [[name] for name in rows if not any(name in group for group in grouped)]
    groups: list[tuple[str, ...]] = []
    for group in [*grouped, *alone]:
        first = chosen and chosen.strategy
        ordered = sorted(group, key=lambda name: (name != first, rows[name].median_seconds))
        alike = words.grouped(ordered, lambda name: units.size(rows[name].footprint.physical_bytes))
        groups += [tuple(same) for same in alike.values()]
    verdict, base = verdicts(profile)[0], baseline(profile)
    answer = _answer(profile, profile, marked, verdict, groups, speeds(marked), base)
    figure = "99th percentile of a frame" if noun == "99th percentile" else f"{noun} per frame"
    return replace(answer, counts=figure)


def predicted_answer(profile: Profile, prediction: Prediction) -> Answer:
    marked = counted(undoubted(profile)).predictions[profile.predictions.index(prediction)]
    verdict, indifference = verdict_of(profile, prediction), profile.preferences.indifference
    own, chosen = prediction.recommendation, marked.recommendation
    if verdict.tone != "none" and own and own.strategy:
        verdict = replace(verdict, remark=_likely(prediction, indifference))
    rows = {row.strategy: row for row in marked.results if isinstance(row, Predicted)}
    base = rows.get((chosen and chosen.baseline) or BASELINE)
    gains = {name: predicted_speed(base, row) for name, row in rows.items()} if base else {}

    def is_like(one: Predicted, first: Predicted) -> bool:
        near = one.likely_seconds <= first.likely_seconds * (1 + indifference)
        same = abs(one.physical_bytes - first.physical_bytes) <= SAME_MEMORY * one.physical_bytes
        return near and same and (base is None or base not in (one, first))  # the baseline stays alone

    # Those near in likely times with the same memory share a bar; the baseline is alone.
    alike: list[list[str]] = []
    for one in sorted(rows.values(), key=lambda row: row.likely_seconds):
        home = next((group for group in alike if is_like(one, rows[group[0]])), None)
        if home is None:
            alike.append(home := [])
        home.append(one.strategy)
    groups = [sorted(group, key=lambda name: name != (chosen and chosen.strategy)) for group in alike]
    answer = _answer(profile, prediction, marked, verdict, groups, gains, base)
    row = rows.get((chosen and chosen.strategy) or "")
    if profile.device.kind != "cpu" or row is None or row.latency_seconds is not None:
        return answer
    # The device path beside the host stages, which vary between runs on this CPU.
    host = row.host_seconds
    longer = f"up to {units.percent(host_noise(row) / host)} longer in another run" if host else ""
    stages = f"host stages {_within(host, row.host_interval)}, from this CPU's times ({longer})"
    path = _within(sum(row.terms.values()) - host, row.device_path_interval)
    apart = Fact("Copies, kernels and waits", path, stages if host else "no host stages")
    return replace(answer, apart=apart)


def _within(seconds: float, interval: tuple[float, float] | None) -> str:
    return units.seconds(seconds) + (f" ({' to '.join(map(units.seconds, interval))})" if interval else "")


def _answer(
    profile: Profile,
    of: Profile | Prediction,
    marked: Profile | Prediction,
    verdict: Verdict,
    groups: Iterable[Sequence[str]],
    gains: Mapping[str, stats.Ratio],
    base: Measured | Predicted | None,
) -> Answer:
    """The answer of the profile, or of one of its predictions; `gains` are over `base`.

    marked: the same as the objective counts it, without a recommendation that is in doubt.
    """
    objective, chosen, device = profile.preferences.objective, of.recommendation, of.device
    parts = parts_of(marked) if counts(objective).noun == "time" else {}
    against = base.strategy if base else ""
    if verdict.tone != "none" and chosen and chosen.strategy:
        where = where_time_goes(parts, chosen.strategy, against)
        verdict = replace(verdict, reason=f"{verdict.reason} {where}".strip())
    here, advised = words.name(device.name), recommendations(profile).get(device.name)
    over = ("", BASELINE, words.name(advised.strategy) if advised and advised.strategy else "")
    fired = (f for f in findings(profile) if f.outcome == "advice" and here in f.devices and not f.again)
    advice = sorted((f for f in fired if f.over in over), key=lambda finding: -finding.seconds)
    if isinstance(of, Prediction) and all_failed(profile):
        advice = []
    drawn = bars(marked, groups, gains, overlaps(of, objective), parts, objective)
    answer = Answer(
        verdict,
        tuple(sorted(drawn, key=lambda bar: (bool(bar.note), bar.amount))),
        against=words.name(against) if against else "",
        memory_of="host and device" if device.kind != "cpu" and not shares_dram(device) else "",
        advice=tuple(advice[:ADVICES]),
        missing=gaps(of.results),
    )
    return _with_change(answer, profile, device, marked.recommendation)


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
    choices = words.count(accuracy["choices"], "published case") if accuracy else ""
    checked = f"checked on {choices}" if accuracy else "not checked"
    if accuracy and accuracy["choices"] >= FEW and accuracy["right_share"] is not None:
        checked = f"right in {units.percent(accuracy['right_share'])} of {choices}"
    checked = f"the model was {checked} of {kind} memory"
    if prediction.confidence is None:
        return f"T{checked[1:]}"
    near = f"Within {indifference * 100:g} % of the fastest in {simulations(prediction.confidence)}"
    return f"{near}; {checked}"


WHERE = "docs/accuracy.md"
_SHARES = ("right_share", "rule_right_share", "regret_mean", "rule_regret_mean", "inside_share")


def accuracy(memory_class: MemoryClass) -> str:
    """The model's error on families of devices left out of its fit, beside that of a rule of three lines."""
    row, where = by_class().get(memory_class), f"memory class {memory_class}"
    if row is None:
        return f"Prediction accuracy: nothing published to check {where} ({WHERE})."
    right, rule, regret, rules, inside = (units.percent(row[name] or 0.0) for name in _SHARES)
    checked = f"checked on {words.count(row['choices'], 'choice')}"
    if row["choices"] >= FEW:
        checked = f"{right} of {row['choices']} choices right or within 5 % (a rule of three lines: {rule}), "
        checked += f"mean regret {regret} ({rules})"
    error = row["ratio_error_median"]
    off = "" if error is None else f", ratios off {units.percent(error)}"
    held = f"{inside} of {row['figures']} figures in range"
    return f"Prediction accuracy for {where}, families left out: {checked}{off}, {held} ({WHERE})."


def bars(
    of: Profile | Prediction,
    groups: Iterable[Sequence[str]],
    gains: Mapping[str, stats.Ratio],
    notes: Mapping[str, str],
    parts: Parts,
    objective: Objective,
) -> Iterator[Bar]:
    """A bar for each group of strategies, whose first one it shows; `notes` are what `overlaps` says of them.

    The rows are as the objective counts them; `gains` are the baseline's times over theirs.
    """
    rows = {row.strategy: row for row in of.results if isinstance(row, (Measured, Predicted))}
    signs, chosen = marks(of), of.recommendation
    base = (chosen and chosen.baseline) or BASELINE
    for group in groups:
        row = rows[group[0]]
        figures = figure_of(row, objective) if isinstance(row, Measured) else seconds_of(row)
        if figures is None:
            continue
        gain, joules = gains.get(row.strategy), isinstance(row, Measured) and objective == "energy"
        ends = gain and (known(gain) if isinstance(row, Measured) else (gain.low, gain.high))
        ends = ends if ends and base not in group and words.known(*ends) else None
        size = bytes_of(row) or 0
        note = words.line(_SCREENED.sub(r"dropped early (\1× the best)", getattr(row, "outside", "")), 100)
        yield Bar(
            tuple(map(words.name, group)),
            *figures,
            units.joules(figures[0]) if joules else units.seconds(figures[0]),
            "" if joules else words.seconds_between(*figures[1:]),
            units.size(size),
            size,
            ratio=units.ratio(1.0 if base in group else gain.value) if gain else "",
            ratio_between=words.ratio_between(*ends).replace("× to ", "–") if ends else "",
            speed=gain.value if gain else None,
            latency=notes.get(row.strategy, ""),
            note=note,
            parts=parts.get(row.strategy, ()),
            chosen=bool(chosen and chosen.strategy in group and chosen.strategy in signs),
            tied=any(signs.get(name) == SIGNS["rival"] for name in group),
            baseline=base in group,
        )
