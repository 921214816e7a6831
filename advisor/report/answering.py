"""The answer of a profile for each of its devices: see `answer`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from advisor import units
from advisor.model.accuracy import by_class
from advisor.profiles.conclusions import Recommendation
from advisor.profiles.row_figures import ScriptRun
from advisor.profiles.schema import Device, Predicted, Prediction, Profile
from advisor.report import words
from advisor.report.advising import findings
from advisor.report.answer import SNIPPET_LINES, Answer, Answers, Change
from advisor.report.bars import drawn, measured_bars, predicted_bars, script_bars
from advisor.report.blocks import Fact, Finding, Verdict
from advisor.report.mixes import legend
from advisor.report.recommendations import direction, measured_verdict, prediction_verdict, verdicts
from advisor.report.tables import apart, gaps, overlaps
from advisor.rules.snippets.writing import snippet, variants
from advisor.strategies.mixes import strategies_of
from advisor.strategies.registry import BASELINE
from advisor.strategies.scripts import code as script_code
from advisor.verdicts.caveats import all_failed, undoubted
from advisor.verdicts.comparing.rows import host_noise
from advisor.verdicts.measured import baseline
from advisor.verdicts.predicted import simulations
from advisor.verdicts.reasons import counted as counts
from advisor.verdicts.scores import counted

ADVICES = 3
_ONCE = "# Once."
"""How the part of a snippet begins that is not helpers."""


def answers(profile: Profile) -> Answers:
    """One answer where something was measured on a GPU; else one for each device that was predicted."""
    if profile.device.kind != "cpu":
        return Answers((measured_answer(profile),), mixes=legend(profile))
    found = tuple(predicted_answer(profile, made) for made in profile.predictions)
    if not found:
        return Answers((Answer(verdicts(profile)[0]),))
    return Answers(found, over=_over(found) if len(found) > 1 else (), mixes=legend(profile))


def _over(found: Sequence[Answer]) -> tuple[Verdict, ...]:
    """What to use where, in one sentence; nothing where each device has its own doubts."""
    named = words.grouped((a for a in found if a.change or a.unchanged), lambda a: (a.chosen, a.likely))
    if not named:
        return ()
    parts = []
    for (name, likely), where in named.items():
        devices = words.listing(answer.verdict.device for answer in where)
        parts.append(f"{'likely' if likely else 'use'} {words.code(name)} on {devices}")
    tones = {answer.verdict.tone for answer in found}
    tone = found[0].verdict.tone if len(tones) == 1 else "tie"
    return (Verdict("predicted", tone, "", f"Predicted: {'; '.join(parts)}"),)


def measured_answer(profile: Profile) -> Answer:
    """The verdict over the measured rows."""
    marked = undoubted(profile)
    chosen, told = marked.recommendation, verdicts(profile)[0]
    bars = tuple(measured_bars(counted(marked), overlaps(profile)))
    base = baseline(profile)
    how = counts(profile.preferences.objective)
    made = Answer(
        told,
        bars,
        counts=f"{how.noun} per frame" if how.noun != "99th percentile" else "99th percentile of a frame",
        against=words.name(base.strategy) if base else "",
        memory_of="host and device" if apart(profile.device) else "",
        advice=_advice(profile, profile.device.name),
        missing=gaps(profile.results),
    )
    sure = _sure(chosen, profile, "process") if chosen else None
    return drawn(_with_change(_with_facts(made, chosen, sure), profile, profile.device, chosen))


def predicted_answer(profile: Profile, made: Prediction) -> Answer:
    """What the model expects of one device."""
    at = profile.predictions.index(made)
    marked = counted(undoubted(profile)).predictions[at]
    chosen, notes = marked.recommendation, overlaps(profile, made)
    found = Answer(
        prediction_verdict(profile, made),
        tuple(predicted_bars(marked, notes, profile.preferences.indifference)),
        against=words.name((chosen and chosen.baseline) or BASELINE),
        memory_of="host and device" if apart(made.device) else "",
        advice=() if all_failed(profile) else _advice(profile, made.device.name),
        missing=gaps(made.results),
    )
    name = chosen.strategy if chosen and profile.device.kind == "cpu" else None
    rows = (row for row in made.results if isinstance(row, Predicted) and row.strategy == name)
    path = next((_apart(row) for row in rows if row.latency_seconds is None), None)
    sure = _likely(made, profile.preferences.indifference)
    found = _with_facts(replace(found, apart=path), chosen, sure)
    return drawn(_with_change(found, profile, made.device, chosen))


def _apart(row: Predicted) -> Fact:
    """The device path by itself, which no other day changes, and the host's stages with their noise."""
    host = row.host_seconds
    noise = units.percent(host_noise(row) / host) if host else ""
    told = f"host stages {units.seconds(host)}, timed on this CPU (±{noise} between runs)"
    path = sum(row.terms.values()) - host
    return Fact("Device path", units.seconds(path), told if host else "no host stages")


def script_answer(profile: Profile, script: ScriptRun) -> Answer:
    """The verdict over a script's runs: no footprint by strategy, so what its pool took stands for it."""
    chosen = profile.recommendation
    name = chosen.strategy if chosen else None
    made = Answer(
        measured_verdict(profile),
        tuple(script_bars(script, name, profile.method.confidence)),
        counts="time per run",
        against=words.name(script.baseline),
        memory_of="reserved from CUDA",
        missing=gaps(profile.results),
    )
    if chosen is None or name is None:
        return drawn(made)
    made, shown = _with_facts(made, chosen, _sure(chosen, profile, "round")), script_code(name)
    if name == script.baseline or not shown:
        return drawn(replace(made, unchanged=f"Nothing to change: keep {words.code(name)}."))
    return drawn(replace(made, change=_excerpt(words.name(name), words.block(shown), ())))


def _with_change(made: Answer, profile: Profile, device: Device, chosen: Recommendation | None) -> Answer:
    """With the code for the recommended strategy, or that none is to change."""
    if chosen is None or chosen.strategy is None:
        return made
    name, kept = words.name(chosen.strategy), chosen.baseline or BASELINE
    if chosen.strategy == kept:
        return replace(made, unchanged=f"Nothing to change: keep {words.code(kept)}.")
    mine, fired = (device.name, chosen.strategy), (a for a in profile.advice if a.outcome == "advice")
    stored = [a for a in fired if a.snippet and (a.device, a.strategy) == mine]
    mixes = strategies_of(profile)
    text = stored[0].snippet if stored else snippet(chosen.strategy, profile.workload, device, mixes)
    if not text:
        return made
    others = stored[0].variants if stored else variants(chosen.strategy, profile.workload, device, mixes)
    further = tuple((words.name(n), words.block(c, 4_000)) for n, c in list(others.items())[:4])
    return replace(made, change=_excerpt(name, words.block(text), further))


def _excerpt(strategy: str, code: str, others: tuple[tuple[str, str], ...]) -> Change:
    """From the buffers on, without imports and helpers; the frame at least, where that is too long."""
    lines = code.splitlines()
    heart = next((i for i, line in enumerate(lines) if line.startswith(_ONCE)), 0)
    shown = lines[heart:]
    if len(shown) > SNIPPET_LINES:
        shown = [*shown[: SNIPPET_LINES - 1], f"# ... {len(shown) - SNIPPET_LINES + 1} more lines"]
    return Change(strategy, "\n".join(shown), code, others)


def _with_facts(made: Answer, chosen: Recommendation | None, sure: Fact | None) -> Answer:
    """How much, how sure, how long and how much memory, from the bars themselves."""
    if chosen is None:
        return made
    mine = next((bar for bar in made.bars if bar.chosen), None)
    if mine is None:
        return replace(made, sure=sure, facts=tuple(filter(None, (sure, made.apart))))
    base = next((bar for bar in made.bars if bar.baseline and not bar.chosen), None)
    kept = words.code(base.name) if base else ""
    time = Fact(made.counts.capitalize(), mine.value, f"{kept}: {base.value}" if base else "")
    memory = Fact("Memory", mine.memory, f"{kept}: {base.memory}" if base and base.memory else "")
    known = _gain(chosen, made.verdict.certainty), sure, time, made.apart, memory if mine.memory else None
    return replace(made, sure=sure, facts=tuple(filter(None, known)))


def _gain(chosen: Recommendation, certainty: str) -> Fact | None:
    if chosen.speedup is None or chosen.baseline is None:
        return None
    if chosen.strategy == chosen.baseline:
        return Fact("Gain", "none", f"{words.code(chosen.baseline)} is the baseline")
    note = "; ".join(filter(None, (direction(chosen), certainty)))
    return Fact("Gain", units.ratio(chosen.speedup), note)


def _sure(chosen: Recommendation, profile: Profile, unit: str) -> Fact:
    """How far from the fastest, at what confidence, from how many of `unit`."""
    times = words.count(profile.final.processes if profile.final else profile.method.rounds, unit)
    evidence = f"at {units.percent(profile.method.confidence)} confidence, {times}"
    bound = f"{max(chosen.bound or 0.0, 0.001) * 100:.1f} %"
    if chosen.verdict == "untrusted":
        between = words.ratio_between(*chosen.noise) if chosen.noise else "not itself"
        return Fact("How sure", "not trusted", f"one strategy under two names: {between}")
    if chosen.verdict == "open" or chosen.bound is None:
        most = f"at most {bound} from the fastest, " if chosen.bound is not None else ""
        return Fact("How sure", "not decided", f"{most}{evidence}")
    if chosen.verdict == "fastest":
        return Fact("How sure", "the fastest", f"every other is slower, {evidence}")
    if chosen.verdict == "keep":
        return Fact("How sure", f"at most {bound}", f"gained by any other strategy, {evidence}")
    return Fact("How sure", f"at most {bound}", f"from the fastest, {evidence}")


def _likely(made: Prediction, indifference: float) -> Fact:
    """In how many simulations, and what the model that simulates has been checked on."""
    known = by_class().get(made.device.memory_class or "discrete")
    checked = f"checked on {words.count(known.choices, 'published choice')}" if known else "not checked"
    model = f"the model was {checked} of memory class {made.device.memory_class}"
    if made.confidence is None:
        return Fact("How sure", "predicted", model)
    near = f"within {indifference * 100:g} % of the fastest; {model}"
    return Fact("How sure", simulations(made.confidence), near)


def _advice(profile: Profile, device: str) -> tuple[Finding, ...]:
    """The advice of the largest gain over the baseline on that device, each change once."""
    here = words.name(device)
    told = (f for f in findings(profile) if f.outcome == "advice" and here in f.devices and not f.again)
    return tuple(told)[:ADVICES]
