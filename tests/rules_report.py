"""Estimated gains held against measured ones: `make rules-report` writes the tables of docs/rules-report.md.

For every profile that was measured on a GPU, the advice is made again by the rules as they are now. Where
the strategy that a rule proposes was measured, the gain that the model computes, blind to the run, stands
beside the measured one. So does that of every change from the baseline to a measured strategy, which is
more than the rules proposed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import median
from typing import NamedTuple

from advisor import stats, units
from advisor.measure.trying.candidates import candidates
from advisor.model.measured import modelled
from advisor.model.terms import span
from advisor.profiles import reading
from advisor.profiles.conclusions import Preferences
from advisor.profiles.schema import Profile
from advisor.rules.advise import advise, conclude
from advisor.strategies.registry import BASELINE
from advisor.verdicts.ceilings import ceiling_of, scopes
from advisor.verdicts.final import ratio as final_ratio
from advisor.verdicts.measured import compared

ROOT = Path(__file__).parent.parent
REPORTS = ROOT / "reports" / "h200"
SCRIPT = ROOT / "tests" / "data" / "trials-camera-h200.json"
REACHED = 0.75
"""Of a promise, from which it counts as kept."""
PATCH = "the patch, all changes together"
DOCUMENT = ROOT / "docs" / "rules-report.md"


class Frames(NamedTuple):
    """Seconds per frame under the old strategy and under the new one."""

    before: float
    after: float

    @property
    def saved(self) -> float:
        return self.before - self.after

    @property
    def speedup(self) -> float:
        return self.before / self.after


class Change(NamedTuple):
    """One change of strategy; `rule` proposed it, empty where none did."""

    workload: str
    rule: str
    old: str
    new: str
    measured: Frames
    estimated: Frames
    sure: bool
    """The measured interval of the ratio leaves no doubt which is the faster."""

    @property
    def off(self) -> float:
        """How far the computed speed-up is from the measured one, as a factor of at least 1."""
        ratio = self.estimated.speedup / self.measured.speedup
        return max(ratio, 1 / ratio)

    @property
    def right(self) -> bool:
        """Whether the model has the sign right."""
        return (self.measured.saved > 0) == (self.estimated.saved > 0)


def changes(name: str, profile: Profile) -> tuple[list[Change], list[Change]]:
    """What rules advise, and every change from the baseline, in a run that measured both strategies."""
    by_rate = profile.model_copy(update={"preferences": Preferences(objective="throughput")})
    measured, pairs = profile.measured(), compared(by_rate)
    likely = {strategy: span(seconds)[1] for strategy, seconds in modelled(profile).items()}

    def between(rule: str, old: str | None, new: str | None) -> Iterator[Change]:
        if old not in likely or new not in likely:
            return
        if {old, new} <= set(pairs.names):
            ratio = final_ratio(pairs.among([old, new]), profile.method.confidence)
        else:
            ratio = stats.ratio_interval(measured[old].rounds, measured[new].rounds)
        frames = Frames(measured[old].median_seconds, measured[new].median_seconds)
        sure = ratio.low > 1 or ratio.high < 1
        yield Change(name, rule, old, new, frames, Frames(likely[old], likely[new]), sure)

    advised = [(a.rule, a.gain.over, a.strategy) for a in advise(profile).advice if a.gain]
    every = [("", BASELINE, strategy) for strategy in measured if strategy != BASELINE]
    told = [one for each in advised for one in between(*each)]
    return told, [one for each in every for one in between(*each)]


class Trial(NamedTuple):
    """One change of a script, or its patch: seconds of a frame as promised and as saved."""

    rule: str
    promised: float
    got: float


def tried(profile: Profile) -> Iterator[Trial]:
    """What `--try` measured of what today's rules advise; a patch has the sum, each crossing once."""
    script, trials = conclude(profile, ()).script, profile.trials
    if not (script and trials and trials.loop is not None and trials.frame_seconds):
        return
    frame, measured = trials.frame_seconds, {trial.name: trial for trial in trials.trials}
    whole = dict[int, float]()
    for one in candidates(script, trials.loop, Path(), script.advice):
        trial = measured.get(one.trial.name)
        if trial and trial.speedup and one.trial.rule and one.trial.promised_seconds:
            yield Trial(one.trial.rule, one.trial.promised_seconds, frame * (1 - 1 / trial.speedup))
        if trial and trial.in_patch:
            whole |= one.promised
    if whole and trials.patch and trials.patch.speedup:
        ceiling = ceiling_of(script, scopes(script)[0])
        most = ceiling.seconds if ceiling else math.inf
        yield Trial(PATCH, min(sum(whole.values()), most), frame * (1 - 1 / trials.patch.speedup))


def tried_table(trials: Sequence[Trial]) -> list[str]:
    lines = [
        "| rule | trials | promised, median | got, median | reached 75 % |",
        "| --- | --- | --- | --- | --- |",
    ]
    for rule in sorted({trial.rule for trial in trials}, key=lambda rule: (rule == PATCH, rule)):
        own = [trial for trial in trials if trial.rule == rule]
        promised, got = (median(getattr(trial, name) for trial in own) for name in ("promised", "got"))
        reached = sum(trial.got >= REACHED * trial.promised for trial in own)
        count = f"{len(own)} trial{'s' * (len(own) > 1)}"
        name = rule if rule == PATCH else f"`{rule}`"
        lines.append(f"| {name} | {count} | {_saved(promised)} | {_saved(got)} | {reached} of {len(own)} |")
    return lines


def summary(changes: Sequence[Change]) -> list[str]:
    """How often the model has the sign right, and how far its speed-ups are off."""
    sure = [change for change in changes if change.sure]
    right = sum(change.right for change in sure)
    within = {bound: sum(change.off <= bound for change in changes) for bound in (1.25, 1.5, 2.0)}
    return [
        f"{len(changes)} changes. Of the {len(sure)} whose measured interval leaves no doubt which is the "
        f"faster, the model has {right} the right way round. Its speed-up is off by a factor of "
        f"{median(change.off for change in changes):.2f} at the median and of "
        f"{max(change.off for change in changes):.2f} at most; "
        + ", ".join(f"{count} are within {bound:g}" for bound, count in within.items())
        + "."
    ]


def table(changes: Sequence[Change], *, rules: bool) -> list[str]:
    figures = ("measured gain", "estimated", "speed-up", "estimated", "off by")
    head = ["run", *["rule"] * rules, "change", *figures]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for change in changes:
        cells = [
            change.workload,
            *[f"`{change.rule}`"] * rules,
            f"`{change.old}` to `{change.new}`",
            _saved(change.measured.saved) + ("" if change.sure else " (in the noise)"),
            _saved(change.estimated.saved),
            f"{change.measured.speedup:.2f}×",
            f"{change.estimated.speedup:.2f}×",
            f"{change.off:.2f}{'' if change.right or not change.sure else ', wrong way'}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _saved(seconds: float) -> str:
    return f"{'-' if seconds < 0 else ''}{units.seconds(abs(seconds))}" if seconds else "0"


def tables() -> dict[str, list[str]]:
    """The tables with their summaries, by the name of their marks in the document."""
    paths = [*sorted(REPORTS.rglob("profile.json")), SCRIPT]
    every_profile = [(path.parent.name, reading.load(path)) for path in paths]
    both = [changes(name, profile) for name, profile in every_profile if profile.script is None]
    scripts = [profile for _, profile in every_profile if profile.script is not None]
    told, every = (list(chain(*each)) for each in zip(*both, strict=True))
    return {
        "proposed": [*summary(told), "", *table(told, rules=True)],
        "tried": tried_table([trial for profile in scripts for trial in tried(profile)]),
        "possible": [*summary(every), "", *table(every, rules=False)],
    }


def between_marks(tables: Mapping[str, Iterable[str]], text: str) -> str:
    """The page with those of the tables that it has as they are now, each between its marks."""
    for name, lines in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        if begin in text:
            head, rest = text.split(begin)
            text = head + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1]
    return text


def main() -> None:
    made = tables()
    print("\n\n".join("\n".join(lines) for lines in made.values()))
    if "--write" in sys.argv:
        DOCUMENT.write_text(between_marks(made, DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
