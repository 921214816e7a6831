"""`make accuracy`: the model against every published case. `--write` ships the result with the package."""

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

import fitted
import measured
from published import ALL, Case, Figure, cases

from advisor.devices.catalogue import load
from advisor.model.accuracy import PATH
from advisor.model.machines import Machine
from advisor.model.monte_carlo import Values, span
from advisor.model.simulate import Simulated, simulate
from advisor.profiles.schema import Predicted
from advisor.strategies.registry import by_name
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

    @property
    def own(self) -> bool:
        return any(f.own for f in self.case.figures)


def outcome(case: Case) -> Outcome:
    entry, trace = load(case.device), case.profile.traffic
    chosen = [by_name(name) for name in dict.fromkeys(f.strategy for f in case.figures)]
    found = simulate(case.profile.workload, trace, Machine(entry), chosen, first_frames=case.first_frames)
    timed = {n: (s, _timed(s, case)) for n, s in found.items() if isinstance(s, Simulated)}
    rows = [_row(name, *pair) for name, pair in timed.items()]
    choice = recommend_predicted(rows, {n: seconds[1:] for n, (_, seconds) in timed.items()})
    return Outcome(
        case,
        entry.memory_class,
        {n: seconds for n, (_, seconds) in timed.items()},
        choice.strategy if choice else None,
    )


def _timed(simulated: Simulated, case: Case) -> Values:
    """Of a whole frame as the verdict counts it by default: begin to end where frames overlap."""
    return simulated.counted("time") if case.parts == ALL else fitted.part(simulated, case.parts)


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
    if len(found.exact) < 2:
        return None
    chosen = next(f for f in found.exact if f.strategy == found.recommended)
    best = min(found.case.figures, key=lambda f: f.published)
    return chosen.ends[0] <= NEAR * best.ends[1]


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
    ranks = [x for x in map(rank_correlation, outcomes) if x is not None]
    held = _all(outcomes, inside)
    return {
        "cases": len(outcomes),
        "figures": sum(len(o.case.figures) for o in outcomes),
        "choices": len(right),
        "right_share": _mean(right),
        "ratio_median": _percentile(ratios, 50),
        "ratio_90": _percentile(ratios, 90),
        "ratio_error_median": _percentile(errors, 50),
        "inside_share": _mean(held),
        "ratio_inside_share": _mean(_all(outcomes, ratios_inside)),
        "rank_correlation": _mean(ranks),
    }


def _all(outcomes: Iterable[Outcome], measure: Callable[[Outcome], list[float] | list[bool]]) -> list[float]:
    return [float(x) for o in outcomes for x in measure(o)]


def _mean(values: Sequence[float]) -> float | None:
    return round(float(np.mean(values)), 3) if values else None


def _percentile(values: Sequence[float], q: float) -> float | None:
    return round(float(np.percentile(values, q)), 3) if values else None


def groups(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes by memory class, then all, then those of which the catalogue quotes no figure."""
    found: dict[str, list[Outcome]] = {}
    for o in outcomes:
        found.setdefault(o.memory_class, []).append(o)
    return {**found, "all": list(outcomes), "unquoted": [o for o in outcomes if not o.own]}


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


def table(found: Mapping[str, Sequence[Outcome]], given: str = PUBLISHED) -> Iterator[str]:
    """By group, as Markdown; `given`: what the figures are, published or measured."""
    yield (
        f"| memory class | cases | figures | right or within 5 % | predicted / {given}, median "
        "| 90th percentile | error of ratios, median | in range | ratios in range | rank correlation |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name, group in found.items():
        s = summary(group)
        cells = [
            name, str(s["cases"]), str(s["figures"]),
            f"{_percent(s['right_share'])} of {s['choices']}" if s["choices"] else "",
            _number(s["ratio_median"]), _number(s["ratio_90"]), _percent(s["ratio_error_median"]),
            _percent(s["inside_share"]), _percent(s["ratio_inside_share"]), _number(s["rank_correlation"]),
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
        *(["quoted by the catalogue"] if figure.own else []),
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


def shipped(outcomes: Sequence[Outcome], ours: Mapping[str, Sequence[Outcome]]) -> str:
    """What the package carries."""
    by_class = {name: summary(group) for name, group in groups(outcomes).items()}
    here = {name: summary(group) for name, group in ours.items()}
    return json.dumps({"made_by": COMMAND, "by_class": by_class, "measured_by_us": here}, indent=1) + "\n"


DOCUMENT = Path(__file__).parent.parent / "docs" / "accuracy.md"


def documented(outcomes: Sequence[Outcome], ours: Mapping[str, Sequence[Outcome]], text: str) -> str:
    """docs/accuracy.md with its tables as they are now, each between its marks."""
    tables = {
        "by-class": table(groups(outcomes)),
        "measured": table(ours, MEASURED),
        "measured-details": details(ours[CALIBRATED], MEASURED),
        "fitted": fitted.table(),
        "details": details(outcomes),
    }
    for name, lines in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        head, rest = text.split(begin)
        tail = rest.split(end)[1]
        text = head + begin + "\n".join(lines) + "\n" + end + tail
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PATH.name} and docs/{DOCUMENT.name}")
    parser.add_argument("--details", action="store_true", help="every figure too")
    arguments = parser.parse_args()
    outcomes, ours = [outcome(case) for case in cases()], groups_measured()
    print("\n".join(table(groups(outcomes))))
    print("\n" + "\n".join(table(ours, MEASURED)))
    print("\n" + "\n".join(fitted.table()))
    if arguments.details:
        print("\n" + "\n".join(details(outcomes)))
        print("\n" + "\n".join(details(ours[CALIBRATED], MEASURED)))
    if arguments.write:
        PATH.write_text(shipped(outcomes, ours), encoding="utf-8")
        text = documented(outcomes, ours, DOCUMENT.read_text(encoding="utf-8"))
        DOCUMENT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
