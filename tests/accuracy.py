"""`make accuracy`: the model against every published case, of devices left out of its fit and in sample.

`--write` ships the result with the package, `--fit` first fits the constants of defaults.toml again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import measured
from calibrated import LeftOut, factors
from left_out import (
    FAMILIES,
    Fit,
    family_of,
    from_the_middle,
    refitted,
    seconds_of,
    sheet,
    with_values,
    written,
)
from outcomes import Outcome, holds, outcome, summary
from published_cases import TO_DEVICE, TO_HOST, Case, Figure, cases
from rules_report import between_marks

from advisor.devices.host_rates import RATES, parse, with_rates
from advisor.model.machines import PATH as DEFAULTS
from advisor.model.machines import Layer, Machine, defaults
from advisor.model.measured import PATH
from advisor.model.terms import span
from advisor.profiles.schema import MemoryClass
from advisor.report.words import grouped

COMMAND = "python -m tests.accuracy --write"


def groups(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes by memory class, then all."""
    return {**grouped(outcomes, lambda o: o.memory_class), "all": list(outcomes)}


def left_out(fit: Fit) -> list[Outcome]:
    """The published cases, each without its family and its source."""
    without = LeftOut(fit)
    return [outcome(case, without.machine(case)) for case in cases()]


CHOSEN_ON = ("Turing", "Pascal", "Jetson Nano and TX", "Xavier", "Thor")
"""The families on which the model's structure may be chosen; the others tell what the choices are worth."""


def by_family(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes by family, then those for choices of structure and the others."""
    found = grouped(outcomes, lambda o: family_of(o.case.entry))
    halves: dict[str, list[Outcome]] = {"structure chosen on": [], "not chosen on": []}
    for name, group in found.items():
        halves["structure chosen on" if name in CHOSEN_ON else "not chosen on"] += group
    return {name: found[name] for name in FAMILIES if name in found} | halves


HALVES = 8


def stricter(fit: Fit) -> Iterator[tuple[str, list[Outcome]]]:
    """The published cases under stricter rules than those of the table."""
    for name, alone in (("fitted constants", True), ("all constants", False)):
        yield (
            f"{name} from the middle",
            left_out(Fit(fit.cases, from_the_middle(fit.among, fitted_alone=alone))),
        )
    families = sorted({family_of(case.entry) for case in cases()})
    for number in range(HALVES):
        drawn = np.random.default_rng(number).permutation(families)
        half = frozenset(drawn[: len(drawn) // 2])
        yield (
            f"half of the families, {number + 1}",
            [o for gone in (half, frozenset(families) - half) for o in _told_by_others(fit, gone)],
        )


def _told_by_others(fit: Fit, gone: frozenset[str]) -> Iterator[Outcome]:
    """The cases of these families, all together left out of the fit and the ranges."""
    others = Fit(fit.cases, fit.among, gone)
    among = others.defaults_without(None, None)
    among = with_values(among, factors(LeftOut(others).scores, fit.among))
    for case in cases():
        if family_of(case.entry) in gone:
            yield outcome(case, Machine(sheet(case.entry), among))


LARGE = 1e6
"""Bytes from which on copies outweigh their calls."""


def other_copies(fit: Fit, given: tuple[str, ...]) -> str:
    """A host's pageable copies over PCIe, predicted from its rates of these names at its largest size."""
    without, errors, held, wide = LeftOut(fit), [], [], []
    hosts: dict[tuple[str, str], dict[str, list[tuple[float, Case, Figure]]]] = {}
    for case in (c for c in cases() if c.parts in (TO_DEVICE, TO_HOST)):
        size = sum(b.bytes for b in case.profile.workload.buffers)
        for figure in case.figures if case.entry.memory_class == "discrete" else ():
            name = f"{figure.strategy}_{'up' if case.parts == TO_DEVICE else 'down'}"
            copies = hosts.setdefault((case.device, case.source), {}).setdefault(name, [])
            copies.append((size, case, figure))
    for copies in hosts.values():
        largest = {name: max(copies[name], key=lambda copy: copy[0]) for name in given if name in copies}
        rates = ",".join(f"{name}={size / f.published / 1e9}GB/s" for name, (size, _, f) in largest.items())
        others = (c for name, some in copies.items() if name.startswith("pageable") for c in some)
        for size, case, figure in others if rates or not given else ():
            if size >= LARGE and (size, case, figure) not in largest.values():
                machine = without.machine(case)
                entry = with_rates(machine.entry, parse(rates)) if rates else machine.entry
                values = seconds_of(case, Machine(entry, machine.among))[figure.strategy]
                low, likely, high = span(values)
                errors.append(abs(np.log(likely / figure.published)))
                held.append(holds(values, figure.published, relative=False))
                wide.append(high / low)
    off, inside = np.expm1(np.median(errors)), np.mean(held)
    return f"off {off:.0%}, {inside:.0%} of {len(held)} in range, {np.median(wide):.2f} wide"


def learnt() -> list[Case]:
    """The cases that constants are fitted to: all published ones, and ours on a data sheet's H200."""
    return [*cases(), *measured.cases("h200")]


CALIBRATED, SHEET = (
    "discrete, H200 (measured by us), calibrated",
    "discrete, H200 (measured by us), data sheet",
)


# Tables

PUBLISHED, MEASURED = "published", "measured"


HEADS = (
    "cases", "figures", "right or within 5 %", "by the rule of three lines", "regret, mean", "the rule's",
    "predicted / {given}, median", "90th percentile", "error of ratios, median", "in range",
    "ratios in range", "width of ranges, median", "rank correlation",
)  # fmt: skip


def table(
    found: Mapping[str, Sequence[Outcome]], given: str = PUBLISHED, head: str = "memory class"
) -> Iterator[str]:
    """By group, as Markdown; `given`: what the figures are, published or measured."""
    yield f"| {head} | {' | '.join(HEADS).format(given=given)} |"
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
    yield f"| case | strategy | {given} | predicted | range | predicted / {given} | |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | --- |"
    for o, f in ((case, figure) for case in outcomes for figure in case.case.figures):
        values, relative = o.of(f), o.case.relative
        if relative:
            values = values / o.of(min(o.exact, key=lambda figure: figure.published))
        low, likely, high = span(values)
        scale, unit = (1.0, "×") if relative else (1e3, " ms")
        name = f.strategy if f.exact else f"{f.strategy} ({f.label})"
        notes = ["recommended"] * (f.exact and f.strategy == o.recommended)
        notes += ["outside"] * (not holds(values, f.published, relative=relative))
        yield (
            f"| {o.case.name} | {name} | {f.published * scale:.3g}{unit} | {likely * scale:.3g}{unit} "
            f"| {low * scale:.3g} to {high * scale:.3g} | {likely / f.published:.2f} | {', '.join(notes)} |"
        )


def _percent(value: float | int | None) -> str:
    return "" if value is None else f"{value * 100:.0f} %"


def _number(value: float | int | None) -> str:
    return "" if value is None else f"{value:.2f}"


@dataclass(frozen=True)
class Held:
    """The model against everything: published cases left out and in sample, and what we measured."""

    without: list[Outcome]
    sample: list[Outcome]
    ours: dict[str, list[Outcome]]
    """From the machine's calibrated entry and from the catalogue's: never mixed with published cases."""
    fit: Fit


def held() -> Held:
    fit, sheet_of_ours = Fit(learnt()), measured.cases("h200")
    ours = {CALIBRATED: map(outcome, measured.cases()), SHEET: map(outcome, sheet_of_ours)}
    sample = [outcome(case) for case in cases()]
    return Held(left_out(fit), sample, {name: list(found) for name, found in ours.items()}, fit)


def shipped(found: Held) -> str:
    """What the package carries: by class the error on devices left out."""
    rows = {name: summary(group) for name, group in groups(found.without).items()}
    return json.dumps({"made_by": COMMAND, "by_class": rows}, indent=1) + "\n"


ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "docs" / "accuracy.md", ROOT / "reports" / "h200" / "calibrated.md")


def documented(found: Held, text: str) -> str:
    """A page with its tables as they are now, each between its marks."""
    tables = {
        "left-out": table(groups(found.without)),
        "families": table(by_family(found.without), head="family"),
        "in-sample": table(groups(found.sample)),
        "measured": table(found.ours, MEASURED),
        "measured-details": details(found.ours[CALIBRATED], MEASURED),
        "fitted": constants(found.fit),
        "details": details(found.without),
        "runs": runs(found.ours),
    }
    return between_marks(tables, text)


def runs(found: Mapping[str, Sequence[Outcome]]) -> Iterator[str]:
    """What we measured, by run, as Markdown: the choice, and how far off either entry's figures are."""
    yield "| run | recommended | its regret | ratios off, calibrated | in range | data sheet | in range |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    pairs = list(zip(found[CALIBRATED], found[SHEET], strict=True))
    rows = [(one.case.name, one.recommended, [one], [other]) for one, other in pairs]
    for name, chosen, *entries in (*rows, ("all", "", *(list(x) for x in zip(*pairs, strict=True)))):
        figures = [summary(outcomes) for outcomes in entries]
        errors = [_percent(f[key]) for f in figures for key in ("ratio_error_median", "inside_share")]
        yield f"| {' | '.join((name, chosen or '', _percent(figures[0]['regret_mean']), *errors))} |"


def constants(fit: Fit) -> Iterator[str]:
    """The fitted constants, as Markdown, and between which values they move without a family."""
    families = sorted({family_of(x.case.entry) for x in fit.observed})
    without = np.exp([fit.without(family, None) for family in families])
    yield "| constant | for | read | fitted | without any one family | figures behind it |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    rows = zip(fit.keys, fit.prior, fit.start, without.T, fit.behind(), strict=True)
    for (i, name), prior, value, others, count in rows:
        layer = fit.among.layers[i]
        ends = f"{others.min():.3g} to {others.max():.3g}"
        cells = (name, conditions(layer), f"{np.exp(prior):.3g}", f"{np.exp(value):.3g}", ends, str(count))
        yield f"| {' | '.join(cells)} |"


def conditions(layer: Layer) -> str:
    classes = "" if layer.memory_classes == get_args(MemoryClass) else ", ".join(layer.memory_classes)
    memory = {None: "", True: "one memory", False: "memory of its own"}[layer.integrated]
    managed = {None: "", True: "managed pages that fault", False: "managed memory that moves whole"}
    every = (classes, memory, managed[layer.concurrent], ", ".join(layer.compute_capabilities or ()))
    return "; ".join(filter(None, every)) or "all"


def fit_again() -> None:
    """Writes the constants that the cases tell, and what they leave unexplained, into defaults.toml."""
    fit = refitted(learnt(), rounds=6)
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
    parser.add_argument(
        "--write",
        action="store_true",
        help=f"write {PATH.name} and the tables of {', '.join(page.name for page in PAGES)}",
    )
    parser.add_argument("--stricter", action="store_true", help="under stricter rules too (minutes)")
    arguments = parser.parse_args()
    if arguments.fit:
        fit_again()
        defaults.cache_clear()
    found = held()
    print("On families left out\n\n" + "\n".join(table(groups(found.without))))
    print("\n" + "\n".join(table(by_family(found.without), head="family")))
    print("\nIn sample\n\n" + "\n".join(table(groups(found.sample))))
    print("\n" + "\n".join(table(found.ours, MEASURED)))
    if arguments.stricter:
        print("\n" + "\n".join(table(dict(stricter(found.fit)), head="rule")))
        print("\nA host's pageable copies, where some of its own rates are given\n")
        for given in ((), ("pinned_up", "pageable_up"), tuple(RATES)):
            print(f"{' '.join(given) or 'none'}: {other_copies(found.fit, given)}")
    if arguments.write:
        PATH.write_text(shipped(found), encoding="utf-8")
        for page in PAGES:
            page.write_text(documented(found, page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
