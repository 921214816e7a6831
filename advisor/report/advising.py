"""Advice on the code, and the conclusion of each rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

from advisor import units
from advisor.profiles.conclusions import Advice, Gain, Recommendation, Unit
from advisor.profiles.schema import Profile
from advisor.report import words
from advisor.report.blocks import Fact, Finding
from advisor.strategies.registry import BASELINE

_WRITE: dict[Unit, Callable[[float], str]] = {
    "seconds": units.seconds,
    "bytes": units.size,
    "bytes_per_second": units.rate,
    "ratio": units.ratio,
    "count": lambda value: f"{value:,.0f}" if value == round(value) else units.digits(value),
}
_ORDER = ("advice", "error", "silenced", "pass", "not-applicable")
_OUTCOMES = {"pass": "passed", "not-applicable": "not applicable"}


def findings(profile: Profile) -> tuple[Finding, ...]:
    """Conclusions of the rules: the recommended strategy's advice first, then other advice, errors, the rest.

    Advice for several devices is joined, and so are other conclusions that read the same.
    """
    recommended = {(device, chosen.strategy) for device, chosen in recommendations(profile).items()}

    def rank(advice: Advice) -> tuple[int, bool, bool, float]:
        """By outcome; then gains over the baseline, the recommended strategy, large gains first."""
        saved = advice.gain.seconds_per_frame if advice.gain else None
        elsewhere = advice.gain is not None and advice.gain.over not in (None, BASELINE)
        place = (advice.device, advice.strategy) not in recommended
        return _ORDER.index(advice.outcome), elsewhere, place, -(saved or 0.0)

    joined: dict[tuple[object, ...], list[Advice]] = {}
    changes: set[tuple[object, ...]] = set()
    for advice in sorted(profile.advice, key=rank):
        # Two rules may propose one change, with one gain: to a strategy, on a device, with what it saves.
        saved = advice.gain.seconds_per_frame if advice.gain else None
        change = (advice.device, *((advice.rule,) if saved is None else (advice.strategy, saved)))
        again = change in changes
        changes.add(change)
        says = (advice.rule, advice.outcome, advice.title, advice.detail, advice.snippet, advice.evidence)
        joined.setdefault((*says, again), []).append(advice)
    return tuple(_across(finding(same, again=bool(says[-1])) for says, same in joined.items()))


def _across(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Joins advice that reads the same on several devices: the first one's words, each one's figures."""
    same_words = attrgetter("outcome", "rule", "title", "over", "again", "snippet")
    for (outcome, *_), same in words.grouped(findings, same_words).items():
        if outcome != "advice" or len(same) == 1:
            yield from same
            continue
        evidence = (replace(f, label=f"{one.where}: {f.label}") for one in same for f in one.evidence)
        most = max(same, key=lambda one: one.seconds)
        gain = words.on_devices((one.gain, device) for one in same for device in one.devices if one.gain)
        devices = tuple(dict.fromkeys(device for one in same for device in one.devices))
        lines = tuple(dict.fromkeys(line for one in same for line in one.lines))
        detail = f"On {same[0].where}: {same[0].detail}"
        saves = f"up to {most.saves}" * bool(most.saves)
        joined = replace(same[0], devices=devices, detail=detail, evidence=tuple(evidence), lines=lines)
        yield replace(joined, gain=gain, saves=saves, seconds=most.seconds)


def with_code(profile: Profile, fired: tuple[Finding, ...], *, none: bool) -> Iterator[Finding]:
    """The findings, with each snippet under the first one that has it.

    A snippet is omitted where the devices' verdicts keep the baseline; with `none`, all are.
    """
    baselines = {  # the baseline, where a device's verdict is to keep it
        words.name(device): words.name(chosen.baseline or BASELINE)
        for device, chosen in recommendations(profile).items()
        if chosen.strategy == (chosen.baseline or BASELINE)
    }
    snippets: set[str] = set()
    for finding in fired:
        unchanged = (baselines.get(device, finding.strategy) for device in finding.devices)
        against = bool(finding.strategy) and all(finding.strategy != baseline for baseline in unchanged)
        again = none or against or finding.snippet in snippets
        yield replace(finding, snippet="", variants=()) if again else finding
        snippets |= set() if again else {finding.snippet}


def recommendations(profile: Profile) -> dict[str, Recommendation]:
    """The recommendation of each device, measured or predicted."""
    pairs = [(p.device.name, p.recommendation) for p in profile.predictions]
    pairs.append((profile.device.name, profile.recommendation))
    return {device: chosen for device, chosen in pairs if chosen is not None}


def finding(same: Sequence[Advice], *, again: bool = False) -> Finding:
    """One rule's conclusion, which reads the same for all of these devices."""
    advice = same[0]
    gains = [advice.gain for advice in same if advice.gain]
    figures = ((words.line(e.label, 200), _WRITE[e.unit](e.value), e) for e in advice.evidence)
    evidence = (Fact(label, value, predicted=e.predicted) for label, value, e in figures)
    return Finding(
        rule=words.name(advice.rule),
        outcome=_OUTCOMES.get(advice.outcome, advice.outcome),
        devices=tuple(dict.fromkeys(words.name(a.device) for a in same)),
        title=words.line(advice.title, 200),
        detail=words.line(advice.detail),
        strategy=words.name(advice.strategy) if advice.strategy else "",
        gain=_by_device(same, partial(_gain, again=again)),
        saves=_by_device(same, partial(_saves, again=again)),
        over=words.name(advice.gain.over) if advice.gain and advice.gain.over else "",
        seconds=(advice.gain.seconds_per_frame or 0.0) if advice.gain else 0.0,
        again=again,
        estimated=any(gain.basis == "estimated" for gain in gains),
        snippet=words.block(advice.snippet) if advice.snippet else "",
        variants=written(advice.variants),
        evidence=tuple(evidence),
        sources=tuple(words.line(source, 300) for source in advice.sources),
        lines=tuple(dict.fromkeys(words.name(line) for a in same for line in a.lines)),
    )


def written(variants: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The snippets for other libraries; a page shows at most four."""
    return tuple((words.name(name), words.block(code, 4_000)) for name, code in list(variants.items())[:4])


def _by_device(same: Sequence[Advice], write: Callable[[Gain], str]) -> str:
    """The gain; where devices differ, that of each."""
    texts = [(text, words.name(a.device)) for a in same if a.gain and (text := write(a.gain))]
    several = len({text for text, _ in texts}) > 1
    return words.on_devices(texts) if several else next((text for text, _ in texts), "")


def _gain(gain: Gain, again: bool) -> str:
    parts = [f"{_less(units.seconds, s)} per frame" for s in (gain.seconds_per_frame,) if s]
    parts += [f"{_less(units.size, b)} memory" for b in (gain.bytes,) if b]
    model = ""  # its estimate of a gain that was measured
    if again:
        return f"{words.listing(parts)} ({gain.basis}), already counted above"
    if gain.estimated_seconds_per_frame is not None:
        model = f"; the model estimates {_less(units.seconds, gain.estimated_seconds_per_frame)}"
    return f"{words.listing(parts)} ({gain.basis}{model})" if parts else ""


def _saves(gain: Gain, again: bool) -> str:
    """The saved time in a few words, or the saved memory where no time is saved."""
    if not (gain.seconds_per_frame or gain.bytes):
        return ""
    text = f"{_less(units.size, gain.bytes or 0)} memory"
    if gain.seconds_per_frame:
        text = _less(units.seconds, gain.seconds_per_frame)
    if again:
        return f"{text}, already counted above"
    text += f" than {words.name(gain.over)}" if gain.over else ""
    return f"{text} (estimated)" if gain.basis == "estimated" else text


def _less(write: Callable[[Any], str], saved: float) -> str:
    return f"{write(abs(saved))} {'less' if saved >= 0 else 'more'}"
