"""The verdict and the advice: which strategy, how sure, and what to change. Pure functions of the data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from advisor import units
from advisor.errors import UsageError, WorkloadError
from advisor.model.predict import with_estimates
from advisor.profiles.conclusions import Advice
from advisor.profiles.schema import Profile, WorkloadRecord
from advisor.rules.base import Case, Finding, Kind, Limits, Row, Rule, not_applicable
from advisor.rules.case import cases
from advisor.rules.registry import RULES, by_id, limits
from advisor.rules.snippets.writing import variants
from advisor.verdicts.measured import recommend


def advise(profile: Profile, rules: Sequence[Rule] = RULES) -> Profile:
    """The profile with its recommendation and the rules' advice; nothing else changes.

    The recommendation is None where nothing was measured on a GPU: the predictions carry their own.
    """
    chosen = recommend(profile) if profile.device.kind == "cuda" else None
    profile = profile.model_copy(update={"recommendation": chosen})
    silenced, wanted = silences(profile), profile.preferences
    advice = tuple(
        _finished(apply(rule, case, limits=limits(rule, wanted), silenced_by=silenced.get(rule.id, "")), case)
        for case in cases(profile)
        for rule in rules
        if profile.workload.gpus > 1 or not rule.text.several_gpus
    )
    return profile.model_copy(update={"advice": with_trace(profile, with_estimates(profile, advice))})


def with_trace(profile: Profile, advice: Iterable[Advice]) -> tuple[Advice, ...]:
    """The advice on the measured device with what nsys recorded of the strategies that it is about."""
    about = {rule.id: rule.traced for rule in RULES}
    return tuple(seen.beside(one, profile) if (seen := about.get(one.rule)) else one for one in advice)


def apply(rule: Rule, case: Case, *, limits: Limits | None = None, silenced_by: str = "") -> Advice:
    """What the rule says of the case. One that raises becomes an `error`, so that the others still speak.

    limits: values in place of the thresholds' defaults. silenced_by: who silenced it; it is not asked then.
    """
    if silenced_by:
        return _advice(rule, case, outcome="silenced", detail=f"Silenced by {silenced_by}.")
    try:
        finding = _judge(rule, case, {**{t.name: t.default for t in rule.text.thresholds}, **(limits or {})})
    except Exception as problem:
        detail = f"This rule failed. This is a bug in advisor: {type(problem).__name__}: {problem}"
        return _advice(rule, case, outcome="error", detail=detail)
    said = {name: value for name, value in vars(finding).items() if name != "inferred"}
    said |= {"title": finding.title or rule.text.title, "certainty": finding.certainty}
    return _advice(rule, case, **said)


def _advice(rule: Rule, case: Case, **said: Any) -> Advice:
    stands = {
        "rule": rule.id,
        "device": case.device.name,
        "title": rule.text.title,
        "sources": rule.text.sources,
    }
    return Advice(**{**stands, **said})


def _judge(rule: Rule, case: Case, limits: Limits) -> Finding:
    if case.device.memory_class not in rule.text.memory_classes:
        return not_applicable(rule.text.elsewhere)
    if not case.rows:
        return not_applicable(f"No strategy has figures on {case.device.name}.")
    if rule.text.one_dram not in (None, case.one_dram):
        return not_applicable(rule.text.elsewhere)
    missing = next((one for one in rule.requires if not _has(case, one)), None)
    if missing is None:
        return rule.judge(case, limits)
    if isinstance(missing, Kind) and missing.example in case.rows:
        return not_applicable(missing.none)
    return case.without(missing.example if isinstance(missing, Kind) else missing)


def _has(case: Case, required: str | Kind) -> bool:
    return bool(case.of(required)) if isinstance(required, Kind) else required in case.rows


def _finished(advice: Advice, case: Case) -> Advice:
    """With its code for other libraries, where it has code; no advice where that is over the budget."""
    proposed = case.rows.get(advice.strategy or "")
    if advice.outcome == "advice" and proposed is not None and not proposed.fits:
        return _over_budget(advice, proposed)
    if advice.snippet is None or advice.strategy is None:
        return advice
    written = variants(advice.strategy, case.workload, case.device, case.mixes)
    return advice.model_copy(update={"variants": written})


def _over_budget(advice: Advice, proposed: Row) -> Advice:
    """What a rule would have proposed, had there been the memory."""
    detail = (
        f"{proposed.strategy} would gain more, but it needs {units.size(proposed.physical_bytes)}, which "
        "exceeds the memory budget."
    )
    dropped = dict.fromkeys(("strategy", "gain", "snippet", "certainty"))
    return advice.model_copy(update={**dropped, "outcome": "pass", "detail": detail})


def silences(profile: Profile) -> dict[str, str]:
    by_file = dict.fromkeys(profile.workload.ignore, f"the workload file {profile.workload.file}")
    return {**by_file, **profile.preferences.ignored}


def require_rules(workload: WorkloadRecord) -> None:
    """Raises `WorkloadError` where the workload silences a rule that there is not, with the nearest."""
    for rule_id in workload.ignore:
        try:
            by_id(rule_id)
        except UsageError as unknown:
            raise WorkloadError(
                f"Workload(ignore=...): {unknown.message}", next_step=unknown.next_step
            ) from None
