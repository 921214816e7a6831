"""All that follows from a profile's figures: predictions for target devices, the advice on strategies or on
a script's lines, and the verdict.

Pure functions of a profile; nothing runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from advisor.devices.catalogue import load, names, of_device
from advisor.devices.entries import CatalogueEntry
from advisor.errors import UsageError
from advisor.model.machines import Machine
from advisor.model.measured import entry_of
from advisor.model.mixing import best_mix
from advisor.model.predict import predict, with_estimates
from advisor.model.simulate import predict_crossings
from advisor.profiles.conclusions import Advice, Preferences, Recommendation
from advisor.profiles.crossings import Ceiling, LineAdvice, ScriptRun
from advisor.profiles.schema import (
    Device,
    Failed,
    Measured,
    Predicted,
    PredictedResult,
    Prediction,
    Profile,
    Result,
    Skipped,
    Trace,
    WorkloadRecord,
)
from advisor.rules.base import Case, Finding, Kind, Limits, Reads, Row, Rule, not_applicable
from advisor.rules.lines import LineCase, likely_seconds
from advisor.rules.registry import RULES, limits
from advisor.rules.rows import shared, strategy_named
from advisor.strategies.mixes import Mix, numbered, strategies_of
from advisor.strategies.registry import STRATEGIES, Strategy
from advisor.verdicts.ceilings import (
    Scope,
    ceiling_of,
    ceilings,
    is_little,
    path_seconds,
    scopes,
    spared_seconds,
)
from advisor.verdicts.measured import recommend
from advisor.verdicts.predicted import by_time
from advisor.verdicts.scores import timed_again


def cases(profile: Profile) -> tuple[Case, ...]:
    """A case for the measured CUDA device; without one, for each device that was predicted.

    Readings are those of the machine that ran: they stay out of the cases of predicted devices.
    """
    if profile.device.kind != "cuda":
        return tuple(_case(profile, p.device, p.results, p.recommendation) for p in profile.predictions)
    measured = _case(profile, profile.device, profile.results, profile.recommendation)
    return (replace(measured, machine=profile.environment, method=profile.method, blocks=profile.blocks),)


def _case(
    profile: Profile,
    device: Device,
    results: Sequence[Result | PredictedResult],
    verdict: Recommendation | None,
) -> Case:
    mixes, budget = strategies_of(profile), profile.preferences.memory_budget_bytes
    figures = (result for result in results if isinstance(result, (Measured, Predicted)))
    rows = (
        Row(each, profile.workload, device.memory_class, strategy_named(each.strategy, mixes), budget)
        for each in figures
    )
    traffic = profile.traffic or Trace()
    return Case(
        device=device,
        workload=profile.workload,
        rows={row.strategy: row for row in rows},
        absent={r.strategy: r.reason for r in results if isinstance(r, (Skipped, Failed))},
        reads=tuple(_reads(profile.workload, traffic)),
        traffic=traffic,
        verdict=verdict,
        mixes=mixes,
    )


def _reads(workload: WorkloadRecord, trace: Trace) -> Iterator[Reads]:
    """For each buffer of both sides that kernels read: passes as declared, or else as traced. A stage that
    runs in some frames counts with its share, one in a loop with all iterations."""
    often = {s.name: trace.times(s.loop) / s.every for s in workload.frame_stages("device")}
    for buffer in shared(workload):
        readers = [name for name, mode in workload.touching(buffer, "device").items() if mode != "out"]
        if not readers or not buffer.bytes:
            continue
        accesses = [t for t in trace.traffic if t.buffer == buffer.name and t.source != "assumed"]
        again = {t.stage: sum(item.bytes for item in t.again) for t in accesses}
        known = {t.stage: (t.bytes_read + again[t.stage]) / buffer.bytes for t in accesses} | {
            stage.name: stage.passes[buffer.name]
            for stage in workload.frame_stages("device")
            if buffer.name in stage.passes
        }
        calls = [a for t in accesses if t.stage in readers for a in t.again if a.bytes]
        yield Reads(
            buffer=buffer.name,
            bytes=buffer.bytes,
            passes=sum(known.get(name, 1.0) * often[name] for name in readers),
            stages=tuple(readers),
            known=all(name in known for name in readers),
            new_each_frame=any(buffer.access.get(s.name, "in") != "in" for s in workload.frame_stages()),
            calls=tuple(dict.fromkeys(f"{a.call} at {a.where}" if a.where else a.call for a in calls)),
        )


def advise(profile: Profile, rules: Sequence[Rule] = RULES) -> Profile:
    """The profile with its recommendation and the rules' advice; nothing else changes.

    The recommendation is None where nothing was measured on a GPU: the predictions carry their own.
    """
    chosen = recommend(profile) if profile.device.kind == "cuda" else None
    profile = profile.model_copy(update={"recommendation": chosen})
    silenced, wanted = silences(profile), profile.preferences
    advice = tuple(
        apply(rule, case, limits(rule, wanted), silenced.get(rule.id, ""))
        for case in cases(profile)
        for rule in rules
        if rule.judge and (profile.workload.gpus > 1 or not rule.text.several_gpus)
    )
    about = {rule.id: rule.traced for rule in rules}
    advice = tuple(
        traced.beside(each, profile) if (traced := about.get(each.rule)) else each
        for each in with_estimates(profile, advice)
    )
    return profile.model_copy(update={"advice": advice})


def apply(rule: Rule, case: Case, limits: Limits, silenced_by: str = "") -> Advice:
    """The rule's conclusion on the case. One that raises becomes an `error`, so that the others still speak.
    silenced_by: who silenced it; it is not asked then."""
    if silenced_by:
        return rule.advice(case.device.name, outcome="silenced", detail=f"Silenced by {silenced_by}.")
    try:
        finding = _judge(rule, case, limits)
    except Exception as problem:
        detail = f"This rule failed. This is a bug in advisor: {type(problem).__name__}: {problem}"
        return rule.advice(case.device.name, outcome="error", detail=detail)
    return rule.concluded(case.device.name, finding)


def _judge(rule: Rule, case: Case, limits: Limits) -> Finding:
    if case.device.memory_class not in rule.text.memory_classes:
        return not_applicable(rule.text.elsewhere)
    if not case.rows:
        return not_applicable(f"No strategy has figures on {case.device.name}.")
    if rule.text.one_dram not in (None, case.one_dram):
        return not_applicable(rule.text.elsewhere)
    missing = next((one for one in rule.requires if not _has(case, one)), None)
    if missing is None:
        return rule.judge(case, limits) if rule.judge else not_applicable("It applies to lines of scripts.")
    if isinstance(missing, Kind) and missing.example in case.rows:
        return not_applicable(missing.none)
    return case.without(missing.example if isinstance(missing, Kind) else missing)


def _has(case: Case, required: Kind | str) -> bool:
    return bool(case.of(required)) if isinstance(required, Kind) else required in case.rows


def silences(profile: Profile) -> dict[str, str]:
    """Who silenced each rule, by the rule's id."""
    by_file = dict.fromkeys(profile.workload.ignore, f"the workload file {profile.workload.file}")
    return {**by_file, **profile.preferences.ignored}


def conclude(
    profile: Profile, targets: Sequence[CatalogueEntry], strategies: Sequence[Strategy] = STRATEGIES
) -> Profile:
    """Predictions for the target devices, then advice and verdict, all by the profile's preferences.

    A script has no strategies: its lines are predicted and advised.
    """
    if profile.script is None:
        return advise(predict_targets(profile, targets, strategies))
    predicted = [predict_crossings(profile.script, target) for target in targets]
    each = (*ceilings(profile.script), *(ceiling for _, by_target in predicted for ceiling in by_target))
    figures = {"predictions": tuple(prediction for prediction, _ in predicted), "ceilings": each}
    run = profile.script.model_copy(update=figures)
    entry = like_device(profile) if profile.device.kind == "cuda" else None
    advice = advise_lines(run, profile.device.name, entry, targets, profile.preferences)
    return profile.model_copy(update={"script": run.model_copy(update={"advice": advice})})


def predict_targets(
    profile: Profile, targets: Sequence[CatalogueEntry], strategies: Sequence[Strategy] = STRATEGIES
) -> Profile:
    """A workload's profile with predictions for the target devices."""
    profile = timed_again(profile)
    placing = {strategy.name: strategy for strategy in strategies if isinstance(strategy, Strategy)}
    placing |= {name: mix for name, mix in strategies_of(profile).items() if isinstance(mix, Mix)}
    predictions = tuple(_predicted(profile, target, placing) for target in targets)
    return _with_predictions(profile, predictions)


def _predicted(profile: Profile, target: CatalogueEntry, placing: dict[str, Strategy]) -> Prediction:
    """The prediction, with the mix that the model finds for the device and adds to `placing`."""
    uniform = [strategy for strategy in placing.values() if not isinstance(strategy, Mix)]
    mixes = [strategy for strategy in placing.values() if isinstance(strategy, Mix)]
    best = best_mix(profile, target, uniform) if profile.method.search != "off" else None
    if best is None:
        return predict(profile, target, [*uniform, *mixes])
    new = best[0]
    work = profile.workload
    known = (m for m in mixes if (m.pipelined, m.assigned(work)) == (new.pipelined, new.assigned(work)))
    chosen = next(known, None) or numbered(new, 1 + len(mixes))
    placing[chosen.name] = chosen
    prediction = predict(profile, target, [*uniform, *(m for m in mixes if m.name != chosen.name), chosen])
    results = tuple(
        row.model_copy(update={"instead": dict(best[1])}) if row.strategy == chosen.name else row
        for row in prediction.results
    )
    return prediction.model_copy(update={"results": results})


def _with_predictions(profile: Profile, predictions: Sequence[Prediction]) -> Profile:
    """The profile with these predictions. Where the objective cannot be predicted, they go by time, and a
    note says so."""
    note = by_time(profile.preferences.objective) if predictions else ""
    notes = dict.fromkeys((*((note,) if note else ()), *profile.notes))
    return profile.model_copy(update={"predictions": tuple(predictions), "notes": tuple(notes)})


def concluded(profile: Profile) -> Profile:
    """The profile with its verdict, which a partial profile lacks."""
    profile = timed_again(profile)
    if profile.script is not None or profile.recommendation is not None:
        return profile
    return advise(profile) if profile.device.kind == "cuda" and profile.measured() else profile


def conclude_again(profile: Profile, preferences: Preferences) -> Profile:
    """The same figures by other preferences; the profile itself where they are those it was made with.

    Of a script they decide which advice is given. Devices are predicted again if the preferences decide
    between strategies. Raises `UsageError` where one is not in the catalogue.
    """
    if preferences == profile.preferences:
        return concluded(profile)
    if profile.script is not None:
        devices = [_entry(prediction.device) for prediction in profile.script.predictions]
        return conclude(profile.model_copy(update={"preferences": preferences}), devices)
    other = timed_again(profile.model_copy(update={"preferences": preferences}))
    if preferences.choice == profile.preferences.choice:
        return advise(other)
    known = strategies_of(other)
    predictions = [
        predict(other, _entry(p.device.name), [known[r.strategy] for r in p.results if r.strategy in known])
        for p in profile.predictions
    ]
    return advise(_with_predictions(other, predictions))


def _entry(device: str) -> CatalogueEntry:
    if (entry := of_device(device)) is not None:
        return entry
    step = "Run `advisor predict PROFILE --target FILE.toml` with the same options."
    raise UsageError(f"{device} is not in the catalogue, so its verdict cannot be recomputed", next_step=step)


def like_device(profile: Profile) -> CatalogueEntry | None:
    """The device's entry, or that of one like it."""
    like_it = (entry for entry in map(load, names()) if entry.memory_class == profile.device.memory_class)
    return entry_of(profile.device) or next(like_it, None)


def advise_lines(
    run: ScriptRun,
    device: str,
    entry: CatalogueEntry | None,
    targets: Sequence[CatalogueEntry],
    wanted: Preferences,
) -> tuple[LineAdvice, ...]:
    """Advice on lines for the measured device, or without times for each one that was predicted.

    entry: the measured device's, or one like it. Nothing is said where memory is not the problem.
    """
    measured = any(c.of_seconds and c.seconds > 0 for c in run.ceilings if not c.predicted)
    machines = {device: entry} if measured else {target.name: target for target in targets}
    return tuple(
        LineAdvice(place=run.crossings[i].place, crossing=i, advice=advice)
        for name, target in machines.items()
        for i, case in _cases(run, name if not measured else None, Machine(target) if target else None)
        if (advice := _strongest(case, name, wanted)) is not None
    )


def _cases(
    run: ScriptRun, predicted_for: str | None, machine: Machine | None
) -> Iterator[tuple[int, LineCase]]:
    files = {source.file: "\n".join((*source.lines, "")) for source in run.sources}
    for scope in scopes(run):
        ceiling = ceiling_of(run, scope, predicted_for)
        if ceiling is None or is_little(ceiling):
            continue
        beside = _beside(scope, ceiling)
        for i, crossing in scope.crossings:
            seconds = likely_seconds(crossing, machine)
            if not ceiling.predicted:
                spared = spared_seconds(crossing)
                seconds = None if spared is None else spared / crossing.count
            if seconds is not None:
                source = files.get(crossing.place.file, "")
                yield i, LineCase(crossing, scope, ceiling, seconds, machine, source, beside.get(i, 0.0))


def _beside(scope: Scope, ceiling: Ceiling) -> dict[int, float]:
    """Cost of copies from or to pageable memory to other lines of a frame, where that was measured.

    Downloads have it, if there are some: on an H200 one of 2 MiB made other lines take 300 µs longer, into
    page-locked memory nothing.
    """
    if ceiling.predicted:
        return {}
    others = ((i, c) for i, c in scope.crossings if c.kind != "wait")
    own = {i: (path_seconds(c) or 0.0) / scope.frames for i, c in others}
    rest = max(0.0, ceiling.copy_seconds - sum(own.values()))
    staged = [(i, c.kind) for i, c in scope.crossings if c.memory == "pageable" and i in own]
    kind = "download" if any(kind == "download" for _, kind in staged) else "upload"
    shares = {i: own[i] for i, each in staged if each == kind}
    return {i: rest * share / sum(shares.values()) for i, share in shares.items() if share}


def _strongest(case: LineCase, device: str, wanted: Preferences) -> Advice | None:
    """The advice that gains most, and enough of a frame, or of all that memory can change where frames were
    not timed: what spares a copy goes before what makes it faster."""
    whole, most, strongest = case.ceiling.of_seconds or case.ceiling.seconds, 0.0, None
    for rule in RULES:
        if rule.judge_line is None or rule.id in wanted.ignored:
            continue
        values = limits(rule, wanted)
        finding = rule.judge_line(case, values)
        gained = (finding and finding.gain and finding.gain.seconds_per_frame) or 0.0
        if finding and gained > most and gained >= values["line_share"] * whole:
            most, strongest = gained, rule.concluded(device, finding)
    return strongest
