"""The parameters that are fitted, and what they would be without each card: is the model fitted to one?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median

import numpy as np
from published import ALL, Case, Figure, cases

from advisor.devices.catalogue import load
from advisor.devices.entries import CatalogueEntry
from advisor.devices.entries import Figure as DeviceFigure
from advisor.model.machines import Machine
from advisor.model.monte_carlo import Values, constant, span, triangular
from advisor.model.simulate import COMMON, Simulated, simulate
from advisor.strategies.registry import by_name

HELD = 0.8
"""Share of the published figures that the ranges are to hold."""
ROUNDING = 1.01


def by_card(parameter: Callable[[Case], float | None]) -> dict[str, float]:
    """What the cases of each device that can tell say the parameter is, the median."""
    found: dict[str, list[float]] = {}
    for case in cases():
        value = parameter(case)
        if value is not None:
            found.setdefault(case.device, []).append(value)
    return {device: median(values) for device, values in found.items()}


def mean(values: Sequence[float]) -> float:
    """On a logarithmic scale."""
    return float(np.exp(np.mean(np.log(values))))


def fault_seconds(case: Case) -> float | None:
    """The time of a fault that gives the published cost of managed memory over pinned, or over nothing."""
    return _implied(case, "managed", "fault_seconds")


def prefetch_call_seconds(case: Case) -> float | None:
    """The same of a prefetch call, of matrices up to 64 KB: there it is the call that costs."""
    small = case.profile.workload.buffers[0].bytes <= 65536
    return _implied(case, "managed-prefetch", "prefetch_call_seconds") if small else None


_IN_THE_GPUS_MEMORY = {"gh200": "pinned", "gb10": "managed", "agx-thor": "pinned"}


def kernel_memory_share(case: Case) -> float | None:
    """The share of the streaming rate that gives the published time of a kernel over the GPU's own memory."""
    strategy = _IN_THE_GPUS_MEMORY.get(case.device)
    published = [f.published for f in case.figures if f.strategy == strategy]
    if not published or strategy is None:
        return None
    entry = _with(load(case.device), "kernel_memory_share", 1.0)
    return float(_seconds(case, entry, [strategy])[strategy][0]) / published[0]


def link_again_share(case: Case) -> float | None:
    """The share of what is read again that crosses the link, by the cost of zero-copy over pinned memory.

    Of matrices from 1 MB on: below, the time is mostly calls.
    """
    exact = {f.strategy: f.published for f in case.figures if f.exact}
    large = case.profile.workload.buffers[0].bytes >= 1 << 20
    if not large or case.parts != ALL or "zero-copy" not in exact:
        return None
    published = exact["zero-copy"] - exact["pinned"]
    half, whole = (_difference(case, "zero-copy", "pinned", "link_again_share", x) for x in (0.5, 1.0))
    return 0.5 + 0.5 * (published - half) / (whole - half)


def _implied(case: Case, strategy: str, name: str) -> float | None:
    exact = {f.strategy: f.published for f in case.figures if f.exact}
    if strategy not in exact or case.relative or load(case.device).memory_class != "discrete":
        return None
    # Of parts of a frame the copies' time may hold allocations: then managed memory's own time is taken.
    base = "pinned" if case.parts == ALL else None
    published = exact[strategy] - (exact[base] if base else 0.0)
    none, unit = (_difference(case, strategy, base, name, seconds) for seconds in (1e-12, 1e-6))
    slope = (unit - none) / 1e-6
    return (published - none) / slope if slope > 1e-3 else None


def _difference(case: Case, strategy: str, base: str | None, name: str, seconds: float) -> float:
    entry = _with(load(case.device), name, seconds)
    found = _seconds(case, entry, [strategy, *([base] if base else [])])
    return float(found[strategy][0] - (found[base][0] if base else 0.0))


def _with(entry: CatalogueEntry, name: str, value: float) -> CatalogueEntry:
    """The entry with a figure of its own; a figure only the model knows goes in beside the others."""
    figures = entry.figures.model_copy(update={name: DeviceFigure(value=value, source="fitting")})
    return entry.model_copy(update={"figures": figures})


def part(simulated: Simulated, prefixes: tuple[str, ...]) -> Values:
    """The seconds of the parts whose names begin with one of these."""
    chosen = (seconds for name, seconds in simulated.parts.items() if name.startswith(prefixes))
    return sum(chosen, constant(0.0))


def _seconds(case: Case, entry: CatalogueEntry, strategies: Sequence[str]) -> dict[str, Values]:
    chosen = [by_name(name) for name in dict.fromkeys(strategies)]
    found = simulate(
        case.profile.workload, case.profile.traffic, Machine(entry), chosen, first_frames=case.first_frames
    )
    return {n: part(s, case.parts) for n, s in found.items() if isinstance(s, Simulated)}


def _discrete() -> list[Case]:
    return [case for case in cases() if load(case.device).memory_class == "discrete"]


# The factor that widens the ranges


def coverage() -> dict[str, Callable[[float], list[bool]]]:
    """By card: which of its figures the ranges hold with a given factor in the place of COMMON."""
    found: dict[str, list[tuple[Figure, Values]]] = {}
    for case in _discrete():
        seconds = _seconds(case, load(case.device), [f.strategy for f in case.figures])
        found.setdefault(case.device, []).extend((f, seconds[f.strategy]) for f in case.figures)
    return {device: partial(_held, rows) for device, rows in found.items()}


def _held(rows: Sequence[tuple[Figure, Values]], factor: float) -> list[bool]:
    # Logarithmic draws scale with the logarithm of their end.
    change = np.exp(triangular(-1.0, 0.0, 1.0, "residual") * np.log(factor / COMMON))
    return [_holds(seconds * change, f.published) for f, seconds in rows]


def _holds(seconds: Values, published: float) -> bool:
    low, _, high = span(seconds)
    return low / ROUNDING <= published <= high * ROUNDING


def least_factor(held: Sequence[Callable[[float], list[bool]]]) -> float:
    """The least factor with which the ranges hold enough of all of these cards' figures."""
    for factor in np.arange(1.0, 3.0, 0.05):
        results = [x for of_card in held for x in of_card(float(factor))]
        if np.mean(results) >= HELD:
            return float(factor)
    return 3.0


def taken(name: str, found: Mapping[str, float]) -> float:
    """What the model takes for it on these devices."""
    return float(Machine(load(next(iter(found)))).get(name)[0])


PARAMETERS: tuple[tuple[str, Callable[[Case], float | None], Callable[[float], str]], ...] = (
    ("fault_seconds", fault_seconds, lambda x: f"{x * 1e6:.0f} µs"),
    ("prefetch_call_seconds", prefetch_call_seconds, lambda x: f"{x * 1e6:.0f} µs"),
    ("link_again_share", link_again_share, lambda x: f"{x:.2f}"),
    ("kernel_memory_share", kernel_memory_share, lambda x: f"{x:.2f}"),
)


def table() -> Iterator[str]:
    """The fitted parameters without each card, as Markdown."""
    yield "| parameter | taken | without the card | from the other cards | from this card alone |"
    yield "| --- | ---: | --- | ---: | ---: |"
    for name, parameter, write in PARAMETERS:
        found = by_card(parameter)
        for card, own in found.items():
            others = mean([value for device, value in found.items() if device != card])
            yield f"| {name} | {write(taken(name, found))} | {card} | {write(others)} | {write(own)} |"
    cards = coverage()
    for card in ("rtx-2060", "gtx-1650-super"):
        factor = least_factor([held for device, held in cards.items() if device != card])
        yield (
            f"| range, either way | {COMMON:g}× | {card} | {factor:.2f}× "
            f"| holds {np.mean(cards[card](factor)) * 100:.0f} %, as taken "
            f"{np.mean(cards[card](COMMON)) * 100:.0f} % |"
        )
