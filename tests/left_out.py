"""The model on what it was not fitted to: each family of devices and each source of figures left out in turn.

The constants that defaults.toml marks with `figures` are fitted to published and measured figures, on a
logarithmic scale and around what was read of them (`prior`). A case is predicted with constants that were
fitted without its family and without its source, from what the device is specified for: nothing that anyone
measured on it. What was read of the family falls out with it (`without_family`). What the terms leave
unexplained is calibrated on the other families' left-out figures (calibrated.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, reduce

import numpy as np
import numpy.typing as npt
from published_cases import Case, simulated, timed

from advisor.devices.catalogue import load, names
from advisor.devices.entries import CatalogueEntry
from advisor.devices.entries import Figure as DeviceFigure
from advisor.model.machines import Default, Defaults, Layer, Machine, defaults
from advisor.model.simulate import Simulated
from advisor.model.terms import Values, constant

Array = npt.NDArray[np.float64]
Key = tuple[int, str]
"""A layer of defaults.toml and the name of a figure in it."""

SPECIFIED = (
    "memory_bytes", "device_memory_bytes_per_second", "l2_bytes", "flops_per_second", "link_bytes_per_second",
    "host_cache_bytes",
)  # fmt: skip
"""The figures of an entry that are no measurements."""
STEP = 0.01
NOISE = 0.5
"""What the terms leave of a device's figures, as a standard deviation of their logarithm."""
OUTLIER = 1.5
"""Of that, where a figure begins to count less (Huber)."""
ROUNDS = 4


def sheet(entry: CatalogueEntry) -> CatalogueEntry:
    """The entry as its data sheet has it."""
    measured = {name: None for name in type(entry.figures).model_fields if name not in SPECIFIED}
    known = {name: figure for name, figure in entry.figures if name in SPECIFIED and figure}
    exact = {n: f.model_copy(update={"low": f.value, "high": f.value}) for n, f in known.items()}
    return entry.model_copy(update={"figures": entry.figures.model_copy(update={**measured, **exact})})


# Fitting


@dataclass
class Varied(Machine):
    """The likely value of everything, and in each fitted figure's own draw a little more of it."""

    columns: Mapping[Key, int] = field(default_factory=dict)

    def _draws(self, name: str, figure: DeviceFigure) -> Values:
        values = constant(figure.value)
        key = self._key(name)
        if key in self.columns and isinstance(self._default(name), Default) and not self.has(name):
            values[self.columns[key]] *= np.exp(STEP)
        return values

    def drawn(self, low: float, mode: float, high: float, name: str) -> Values:
        return constant(mode)

    def _key(self, name: str) -> Key:
        layers = enumerate(self.among.layers)
        return max(
            ((i, name) for i, layer in layers if name in layer.figures and layer.covers(self.entry)),
            default=(-1, name),
        )


def fitted(among: Defaults) -> list[Key]:
    return [
        (i, name) for i, layer in enumerate(among.layers) for name, x in layer.figures.items() if x.figures
    ]


FAMILIES = {
    "Maxwell and older": ("3.7", "5.0", "5.2", r"K80|TITAN X|GT 710|GTX 9\d\d"),
    "Pascal": ("6.0", "6.1", r"P100|GTX 10\d\d|pascal"),
    "Volta": ("7.0", r"V100"),
    "Turing": ("7.5", r"GTX 16\d\d|RTX 20\d\d|\bT4\b|T1000|RTX [68]000"),
    "Ampere": ("8.0", "8.6", r"A100|RTX 30\d\d"),
    "Ada": ("8.9", r"RTX 40\d\d"),
    "Hopper": ("9.0", r"(?<!G)H[128]00"),
    "Blackwell": ("10.0", "10.3", "12.0", r"(?<!G)B[23]00|RTX 50\d\d"),
    "Grace": ("9.0 coherent", r"GH200|GB[23]00|Grace|dnhkng|C2C"),
    "GB10": ("12.1", r"GB10|DGX Spark"),
    "Thor": ("11.0", r"Thor"),
    "Orin": ("8.7", r"Orin|Jetson Linux"),
    "Xavier": ("7.2", r"Xavier"),
    "Jetson Nano and TX": ("5.3", "6.2", r"(?<!Orin )Nano|Cortex-A57|TX[12]"),
}
"""Compute capabilities of each family, and what names it in the source of a figure."""


def family_of(entry: CatalogueEntry) -> str:
    capability = str(entry.attributes["compute_capability"].value)
    if entry.memory_class == "coherent" and capability == "9.0":
        capability += " coherent"
    return next((name for name, (*known, _) in FAMILIES.items() if capability in known), capability)


def behind(figure: Default) -> set[str]:
    """The families that the figure's source names."""
    text = figure.source if figure.only is None else f"{figure.source} {load(figure.only).name}"
    return {name for name, (*_, pattern) in FAMILIES.items() if re.search(pattern, text)}


WIDER = 1.5
"""What a range that is known from the family alone is widened by at either end."""


def without_family(among: Defaults, family: str | None) -> Defaults:
    """The defaults without what was read of this family.

    A figure that other families tell too takes the middle of its range. One that this family alone tells is
    that of an earlier layer for these devices; where there is none, the middle of a wider range.
    """
    entries = [entry for entry in map(load, names()) if family_of(entry) == family]
    layers: list[Layer] = []
    for layer in among.layers:
        figures = {}
        for name, figure in layer.figures.items():
            named = behind(figure)
            if family not in named:
                figures[name] = figure
            elif len(named) > 1:
                figures[name] = figure.model_copy(update=_middle(figure.low, figure.high))
            elif not all(any(name in e.figures and e.covers(x) for e in layers) for x in entries):
                figures[name] = figure.model_copy(update=_middle(figure.low / WIDER, figure.high * WIDER))
        layers.append(layer.model_copy(update={"figures": figures}))
    return among.model_copy(update={"layers": tuple(layers)})


def _middle(low: float, high: float) -> dict[str, float]:
    value = (low * high) ** 0.5 if low else high / 2
    return {"low": low, "value": value, "high": high, "prior": value}


def from_the_middle(among: Defaults, *, fitted_alone: bool) -> Defaults:
    """The defaults as if nothing were known of a constant but its range, or of each that is fitted."""
    changed = {
        (i, name): {**_middle(figure.low, figure.high), "low": figure.low, "high": figure.high}
        for i, layer in enumerate(among.layers)
        for name, figure in layer.figures.items()
        if (figure.figures or not fitted_alone) and not name.startswith(("unexplained", "slower_clocks"))
    }
    return with_values(among, changed)


def with_values(among: Defaults, changed: Mapping[Key, Mapping[str, float]]) -> Defaults:
    """The defaults with other values, or ends, of some figures."""
    layers = []
    for i, layer in enumerate(among.layers):
        figures = {
            name: figure.model_copy(update=changed[i, name]) if (i, name) in changed else figure
            for name, figure in layer.figures.items()
        }
        layers.append(layer.model_copy(update={"figures": figures}))
    return among.model_copy(update={"layers": tuple(layers)})


@dataclass(frozen=True)
class Observed:
    """One figure for the fit: how far it is from the model, and what each constant changes."""

    case: Case
    residual: float
    slopes: Array


@dataclass
class Fit:
    """Constants fitted to cases; those without a device and a source follow from the same slopes."""

    cases: Sequence[Case]
    among: Defaults = field(default_factory=defaults)
    gone: frozenset[str] = frozenset()
    """Families of which nothing is known, whichever else is left out."""

    def __post_init__(self) -> None:
        # Asked for once per case; each answer reads the whole catalogue and every source.
        self.without, self._among_without = cache(self.without), cache(self._among_without)
        self.keys = fitted(self.among)
        found = [self.among.layers[i].figures[name] for i, name in self.keys]
        self.prior = np.log([x.prior or x.value for x in found])
        self.low, self.high = np.log([x.low for x in found]), np.log([x.high for x in found])
        self.start = np.log([x.value for x in found])

    @cached_property
    def observed(self) -> list[Observed]:
        """All figures, about the values of the file."""
        kept = (case for case in self.cases if family_of(case.entry) not in self.gone)
        return [x for case in kept for x in self._of(case)]

    def _of(self, case: Case) -> Iterable[Observed]:
        columns = {key: n + 1 for n, key in enumerate(self.keys)}
        machine = Varied(sheet(case.entry), self.among, columns=columns)
        seconds = seconds_of(case, machine)
        figures = [f for f in case.figures if f.strategy in seconds]
        logs = np.log([seconds[f.strategy][: len(self.keys) + 1] for f in figures])
        published = np.log([f.published for f in figures])
        if case.relative:
            logs, published = logs - logs.mean(axis=0), published - published.mean()
        for row, value in zip(logs, published, strict=True):
            yield Observed(case, value - row[0], (row[1:] - row[0]) / STEP)

    def without(self, family: str | None, source: str | None) -> Array:
        """The logarithms of the constants, fitted to the other families' figures of other sources."""
        others = (x for x in self.observed if x.case.source != source)
        rows = [x for x in others if family_of(x.case.entry) != family]
        prior = self._prior_without(family)
        slopes, residual = np.array([x.slopes for x in rows]), np.array([x.residual for x in rows])
        counts = Counter((x.case.device, x.case.source) for x in rows)
        # Ten figures of one source tell about as much as three of three.
        weight = np.array([counts[x.case.device, x.case.source] ** -0.5 for x in rows]) / NOISE**2
        belief = 1 / (np.maximum(self.high - self.low, 0.2) / 4) ** 2
        change = np.zeros(len(self.keys))
        for _ in range(ROUNDS):
            left = residual - slopes @ change
            robust = weight * np.minimum(1, OUTLIER * NOISE / np.maximum(np.abs(left), 1e-9))
            normal = (slopes.T * robust) @ slopes + np.diag(belief)
            wanted = (slopes.T * robust) @ residual + belief * (prior - self.start)
            change = np.linalg.solve(normal, wanted)
            change = np.clip(change, self.low - self.start, self.high - self.start)
        return self.start + change

    def _prior_without(self, family: str | None) -> Array:
        """What the sources of other families say."""
        layers = self._among_without(family).layers
        found = [layers[i].figures.get(name) for i, name in self.keys]
        middle = (self.low + self.high) / 2
        return np.array(
            [np.log(x.prior or x.value) if x is not None else middle[n] for n, x in enumerate(found)]
        )

    def defaults_without(self, family: str | None, source: str | None) -> Defaults:
        values = np.exp(self.without(family, source))
        changed = {k: {"value": float(v)} for k, v in zip(self.keys, values, strict=True)}
        return with_values(self._among_without(family), changed)

    def _among_without(self, family: str | None) -> Defaults:
        wanted = sorted({*self.gone, *([family] if family else [])})
        return reduce(without_family, wanted, self.among)

    def behind(self) -> list[int]:
        """How many figures change by a tenth of what a constant does, or more."""
        slopes = np.array([x.slopes for x in self.observed])
        return [int(n) for n in (np.abs(slopes) >= 0.1).sum(axis=0)]


def refitted(cases: Sequence[Case], rounds: int) -> Fit:
    """The fit about its own values, halfway each time: where a minimum changes sides, whole steps swing."""
    fit = Fit(cases)
    for _ in range(rounds):
        values = np.exp((fit.start + fit.without(None, None)) / 2)
        changed = {key: {"value": float(x)} for key, x in zip(fit.keys, values, strict=True)}
        fit = Fit(cases, with_values(fit.among, changed))
    return fit


def seconds_of(case: Case, machine: Machine) -> dict[str, Values]:
    """The timed parts of a case's strategies that the device can do."""
    return {name: timed(s, case) for name, s in simulations(case, machine).items()}


def simulations(case: Case, machine: Machine) -> dict[str, Simulated]:
    names = dict.fromkeys(f.strategy for f in case.figures)
    return simulated(case.profile, machine, *names, first_frames=case.first_frames)


# Writing the file


def written(text: str, changed: Mapping[Key, Mapping[str, float]]) -> str:
    """The text of defaults.toml with other numbers for some figures; the rest of each line stays."""
    layers = text.split("[[layers]]")
    for (i, name), numbers in changed.items():
        layer = layers[i + 1]
        (line,) = re.findall(rf"^{name} = .*$", layer, re.MULTILINE)
        new = line
        for key, number in numbers.items():
            new = re.sub(rf"\b{key} = [-+.e0-9]+", f"{key} = {_number(number)}", new, count=1)
        layers[i + 1] = layer.replace(line, new)
    return "[[layers]]".join(layers)


def _number(value: float) -> str:
    """Three digits, as TOML has numbers."""
    return f"{value:.3g}".replace("e+", "e")
