"""`make accuracy`: the model against every published case, of devices left out of its fit and in sample.

`--write` ships the result with the package, `--fit` first fits the constants of defaults.toml again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import measured
from calibrated import LeftOut, factors
from left_out import Fit, refitted, simulated, written
from published import cases
from published_cases import Case, Figure, timed

from advisor.devices.catalogue import load
from advisor.model.accuracy import PATH
from advisor.model.machines import PATH as DEFAULTS
from advisor.model.machines import Machine, defaults, shares_memory
from advisor.model.monte_carlo import Values, span
from advisor.model.simulate import Simulated
from advisor.profiles.schema import Predicted
from advisor.verdicts.predicted import recommend_predicted

COMMAND = "python -m tests.accuracy --write"
NEAR = 1.05
ROUNDING = 1.01
"""Published times have three digits at most."""
ABOUT = 1.05
"""Published ratios are told as "about the same" and "~5x"."""


@dataclass(frozen=True)
class Outcome:
    """A case with the model's figures for the timed parts, in every draw."""

    case: Case
    memory_class: str
    seconds: dict[str, Values]
    recommended: str | None

    def of(self, figure: Figure) -> Values:
        return self.seconds[figure.strategy]

    @property
    def exact(self) -> list[Figure]:
        return [f for f in self.case.figures if f.exact]


def outcome(case: Case, machine: Machine | None = None) -> Outcome:
    """The case on its device as the catalogue has it, or on another form of it."""
    machine = machine or Machine(load(case.device))
    found = {n: (s, timed(s, case)) for n, s in simulated(case, machine).items()}
    rows = [_row(name, *pair) for name, pair in found.items()]
    choice = recommend_predicted(rows, {n: seconds[1:] for n, (_, seconds) in found.items()})
    return Outcome(
        case,
        machine.entry.memory_class,
        {n: seconds for n, (_, seconds) in found.items()},
        choice.strategy if choice else None,
    )


def _row(name: str, simulated: Simulated, seconds: Values) -> Predicted:
    low, likely, high = span(seconds)
    return Predicted(
        strategy=name,
        low_seconds=low,
        likely_seconds=likely,
        high_seconds=high,
        terms={"timed": likely},
        physical_bytes=simulated.physical_bytes,
    )


# What is counted


def is_right(found: Outcome) -> bool | None:
    """Whether the recommended strategy is the published best or within 5 % of it; None for one strategy.

    Where we measured, with intervals: whether it may be within 5 % of the best.
    """
    return _near_best(found, found.recommended) if len(found.exact) > 1 else None


def _near_best(found: Outcome, strategy: str | None) -> bool:
    chosen = next(f for f in found.exact if f.strategy == strategy)
    best = min(found.exact, key=lambda f: f.published)
    return chosen.ends[0] <= NEAR * best.ends[1]


RULE = {True: ("managed", "zero-copy", "system", "pinned"), False: ("pinned", "managed-prefetch", "pageable")}
SMALL = 1 << 18
"""Bytes of all buffers of a frame."""


def by_the_rule(found: Outcome) -> str:
    """What three lines would choose: managed where there is one memory; on cards zero-copy for the smallest
    sizes, else pinned. Of what was published, in that order."""
    entry = load(found.case.device)
    small = sum(b.bytes for b in found.case.profile.workload.buffers) <= SMALL
    shared = shares_memory(entry)
    order = ("zero-copy", *RULE[False]) if small and not shared else RULE[shared]
    known = [f.strategy for f in found.exact]
    return next((name for name in order if name in known), known[0])


def regret(found: Outcome, chosen: str | None) -> float:
    """How much longer the chosen strategy takes than the best, as published: a share."""
    seconds = next(f.published for f in found.exact if f.strategy == chosen)
    return seconds / min(f.published for f in found.exact) - 1


def over_published(found: Outcome) -> list[float]:
    """Predicted time over the published one, of each figure."""
    if found.case.relative:
        return []
    return [float(found.of(f)[0]) / f.published for f in found.case.figures]


def ratio_errors(found: Outcome) -> list[float]:
    """Of each pair of strategies: by how much their predicted ratio misses the published one, as a share."""
    errors = []
    for one, other in combinations(found.exact, 2):
        predicted = found.of(one)[0] / found.of(other)[0]
        errors.append(float(np.exp(abs(np.log(predicted / (one.published / other.published)))) - 1))
    return errors


def inside(found: Outcome) -> list[bool]:
    """Whether each published figure lies in the range; of relative ones, each ratio in the ratio's range."""
    if not found.case.relative:
        return [_holds(found.of(f), f.published, relative=False) for f in found.case.figures]
    return ratios_inside(found)


def _holds(values: Values, published: float, *, relative: bool) -> bool:
    low, _, high = span(values)
    rounding = ABOUT if relative else ROUNDING
    return low / rounding <= published <= high * rounding


def widths(found: Outcome) -> list[float]:
    """The high end of each figure's range over the low one."""
    if found.case.relative:
        return []
    ends = [span(found.of(f)) for f in found.case.figures]
    return [high / low for low, _, high in ends]


def ratios_inside(found: Outcome) -> list[bool]:
    """Whether the published ratio of each pair of strategies lies in the range of the predicted one."""
    return [
        _holds(
            found.of(one) / found.of(other),
            one.published / other.published,
            relative=found.case.relative,
        )
        for one, other in combinations(found.exact, 2)
    ]


def rank_correlation(found: Outcome) -> float | None:
    """Spearman's, of the strategies of a case; None for fewer than three, and where all take the same."""
    if len(found.exact) < 3:
        return None
    predicted = _ranks([float(found.of(f)[0]) for f in found.exact])
    published = _ranks([f.published for f in found.exact])
    if np.ptp(predicted) == 0 or np.ptp(published) == 0:
        return None
    return float(np.corrcoef(predicted, published)[0, 1])


def _ranks(values: Sequence[float]) -> Values:
    """Ranks from 0; values within a percent of one another share their mean rank."""
    x = np.log(values)
    below = (x[:, None] - x[None, :] > np.log(ROUNDING)).sum(axis=1)
    above = (x[None, :] - x[:, None] > np.log(ROUNDING)).sum(axis=1)
    return np.asarray((below + len(x) - 1 - above) / 2)


def summary(outcomes: Sequence[Outcome]) -> dict[str, float | int | None]:
    """The figures of a group of cases; None where no case can give one."""
    ratios, errors = _all(outcomes, over_published), _all(outcomes, ratio_errors)
    right = [x for x in map(is_right, outcomes) if x is not None]
    several = [o for o in outcomes if len(o.exact) > 1]
    ranks = [x for x in map(rank_correlation, outcomes) if x is not None]
    held = _all(outcomes, inside)
    return {
        "cases": len(outcomes),
        "figures": sum(len(o.case.figures) for o in outcomes),
        "choices": len(right),
        "right_share": _mean(right),
        "rule_right_share": _mean([_near_best(o, by_the_rule(o)) for o in several]),
        "regret_mean": _mean([regret(o, o.recommended) for o in several]),
        "rule_regret_mean": _mean([regret(o, by_the_rule(o)) for o in several]),
        "ratio_median": _percentile(ratios, 50),
        "ratio_90": _percentile(ratios, 90),
        "ratio_error_median": _percentile(errors, 50),
        "inside_share": _mean(held),
        "ratio_inside_share": _mean(_all(outcomes, ratios_inside)),
        "width_median": _percentile(_all(outcomes, widths), 50),
        "rank_correlation": _mean(ranks),
    }


def _all(outcomes: Iterable[Outcome], measure: Callable[[Outcome], list[float] | list[bool]]) -> list[float]:
    return [float(x) for o in outcomes for x in measure(o)]


def _mean(values: Sequence[float]) -> float | None:
    return round(float(np.mean(values)), 3) if values else None


def _percentile(values: Sequence[float], q: float) -> float | None:
    return round(float(np.percentile(values, q)), 3) if values else None


def groups(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes by memory class, then all."""
    found: dict[str, list[Outcome]] = {}
    for o in outcomes:
        found.setdefault(o.memory_class, []).append(o)
    return {**found, "all": list(outcomes)}


def left_out(fit: Fit) -> list[Outcome]:
    """The published cases, each without its device and its source."""
    without = LeftOut(fit)
    return [outcome(case, without.machine(case)) for case in cases()]


def learnt() -> list[Case]:
    """The cases that constants are fitted to: all published ones, and ours on a data sheet's H200."""
    return [*cases(), *measured.cases("h200")]


CALIBRATED, SHEET = (
    "discrete, H200 (measured by us), calibrated",
    "discrete, H200 (measured by us), data sheet",
)


def groups_measured() -> dict[str, list[Outcome]]:
    """What we measured, predicted from the machine's calibrated entry and from the catalogue's: never mixed
    with published cases."""
    own = [outcome(case) for case in measured.cases()]
    return {CALIBRATED: own, SHEET: [outcome(case) for case in measured.cases("h200")]}


# Tables

PUBLISHED, MEASURED = "published", "measured"


HEADS = (
    "cases", "figures", "right or within 5 %", "by the rule of three lines", "regret, mean", "the rule's",
    "predicted / {given}, median", "90th percentile", "error of ratios, median", "in range", "ratios in range",
    "width of ranges, median", "rank correlation",
)  # fmt: skip


def table(found: Mapping[str, Sequence[Outcome]], given: str = PUBLISHED) -> Iterator[str]:
    """By group, as Markdown; `given`: what the figures are, published or measured."""
    yield f"| memory class | {' | '.join(HEADS).format(given=given)} |"
    yield f"| --- |{' ---: |' * len(HEADS)}"
    for name, group in found.items():
        s = summary(group)
        cells = [
            name, str(s["cases"]), str(s["figures"]),
            f"{_percent(s['right_share'])} of {s['choices']}" if s["choices"] else "",
            _percent(s["rule_right_share"]), _percent(s["regret_mean"]), _percent(s["rule_regret_mean"]),
            _number(s["ratio_median"]), _number(s["ratio_90"]), _percent(s["ratio_error_median"]),
            _percent(s["inside_share"]), _percent(s["ratio_inside_share"]), _number(s["width_median"]),
            _number(s["rank_correlation"]),
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def details(outcomes: Sequence[Outcome], given: str = PUBLISHED) -> Iterator[str]:
    """Every figure, as Markdown."""
    yield f"| case | strategy | {given} | predicted | range | predicted / {given} | |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | --- |"
    for o in outcomes:
        for f in o.case.figures:
            yield _detail(o, f)


def _detail(found: Outcome, figure: Figure) -> str:
    values = found.of(figure)
    if found.case.relative:
        fastest = min(found.exact, key=lambda f: f.published)
        values = values / found.of(fastest)
    low, likely, high = span(values)
    scale, unit = (1.0, "×") if found.case.relative else (1e3, " ms")
    name = figure.strategy if figure.exact else f"{figure.strategy} ({figure.label})"
    notes = [
        *(["recommended"] if figure.exact and figure.strategy == found.recommended else []),
        *([] if _holds(values, figure.published, relative=found.case.relative) else ["outside"]),
    ]
    return (
        f"| {found.case.name} | {name} | {figure.published * scale:.3g}{unit} | {likely * scale:.3g}{unit} "
        f"| {low * scale:.3g} to {high * scale:.3g} | {likely / figure.published:.2f} | {', '.join(notes)} |"
    )


def _percent(value: float | int | None) -> str:
    return "" if value is None else f"{value * 100:.0f} %"


def _number(value: float | int | None) -> str:
    return "" if value is None else f"{value:.2f}"


@dataclass(frozen=True)
class Held:
    """The model against everything: published cases of devices left out and in sample, and what we measured."""

    without: list[Outcome]
    sample: list[Outcome]
    ours: dict[str, list[Outcome]]
    fit: Fit


def held() -> Held:
    """All of it, with the constants of defaults.toml."""
    fit = Fit(learnt())
    return Held(left_out(fit), [outcome(case) for case in cases()], groups_measured(), fit)


def shipped(found: Held) -> str:
    """What the package carries: by class the error on devices left out."""
    parts = {
        "by_class": groups(found.without),
        "in_sample": groups(found.sample),
        "measured_by_us": found.ours,
    }
    rows = {part: {name: summary(group) for name, group in of.items()} for part, of in parts.items()}
    return json.dumps({"made_by": COMMAND, **rows}, indent=1) + "\n"


DOCUMENT = Path(__file__).parent.parent / "docs" / "accuracy.md"


def documented(found: Held, text: str) -> str:
    """docs/accuracy.md with its tables as they are now, each between its marks."""
    tables = {
        "left-out": table(groups(found.without)),
        "in-sample": table(groups(found.sample)),
        "measured": table(found.ours, MEASURED),
        "measured-details": details(found.ours[CALIBRATED], MEASURED),
        "fitted": constants(found.fit),
        "details": details(found.without),
    }
    for name, lines in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        head, rest = text.split(begin)
        tail = rest.split(end)[1]
        text = head + begin + "\n".join(lines) + "\n" + end + tail
    return text


def constants(fit: Fit) -> Iterator[str]:
    """The fitted constants, as Markdown, and between which values they move without a device."""
    devices = sorted({x.device for x in fit.observed})
    without = np.exp([fit.without(device, None) for device in devices])
    yield "| constant | for | read | fitted | without any one device | figures behind it |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    rows = zip(fit.keys, fit.prior, fit.start, without.T, fit.behind(), strict=True)
    for (i, name), prior, value, others, count in rows:
        layer = fit.among.layers[i]
        ends = f"{others.min():.3g} to {others.max():.3g}"
        cells = (name, layer.told, f"{np.exp(prior):.3g}", f"{np.exp(value):.3g}", ends, str(count))
        yield f"| {' | '.join(cells)} |"


def fit_again() -> None:
    """Writes the constants that the cases tell, and what they leave unexplained, into defaults.toml."""
    fit = refitted(learnt(), rounds=3)
    counts = fit.behind()
    values = {
        k: {"value": float(np.exp(x)), "figures": float(max(n, 1))}
        for k, x, n in zip(fit.keys, fit.start, counts, strict=True)
    }
    ends = factors(LeftOut(fit).scores, fit.among)
    text = written(DEFAULTS.read_text(encoding="utf-8"), values | ends)
    DEFAULTS.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true", help=f"fit the constants of {DEFAULTS.name} again")
    parser.add_argument("--write", action="store_true", help=f"write {PATH.name} and docs/{DOCUMENT.name}")
    parser.add_argument("--details", action="store_true", help="every figure too")
    arguments = parser.parse_args()
    if arguments.fit:
        fit_again()
        defaults.cache_clear()
    found = held()
    print("On devices left out\n\n" + "\n".join(table(groups(found.without))))
    print("\nIn sample\n\n" + "\n".join(table(groups(found.sample))))
    print("\n" + "\n".join(table(found.ours, MEASURED)))
    if arguments.details:
        print("\n" + "\n".join(constants(found.fit)))
        print("\n" + "\n".join(details(found.without)))
        print("\n" + "\n".join(details(found.ours[CALIBRATED], MEASURED)))
    if arguments.write:
        PATH.write_text(shipped(found), encoding="utf-8")
        DOCUMENT.write_text(documented(found, DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
