"""Numbers with their units, for people: three significant digits, one spelling everywhere."""

from __future__ import annotations

import math
import re

from advisor.stats import Ratio

MINUS = "\N{MINUS SIGN}"
_TIME = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_SHORTEST, _LONGEST = 1e-15, 1e15
_BYTES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def digits(value: float, significant: int = 3) -> str:
    """`value` with so many significant digits and no exponent: 0.0123, 1.23, 123, 12300."""
    if value == 0:
        return "0"
    rounded = _rounded(value, significant)
    decimals = significant - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:.{max(decimals, 0)}f}"


def seconds(value: float, significant: int = 3) -> str:
    """1.23 ms, 45.6 µs, 12.0 s; nothing at all is 0 s, and what no frame can take has an exponent."""
    if value == 0:
        return "0 s"
    if not _SHORTEST <= abs(value) <= _LONGEST:
        return f"{value:.{significant - 1}e} s"
    rounded = _rounded(value, significant)  # 999.5 µs is 1.00 ms
    scale, unit = next(((s, u) for s, u in _TIME if abs(rounded) >= s), _TIME[-1])
    return f"{digits(rounded / scale, significant)} {unit}"


def _rounded(value: float, significant: int) -> float:
    return float(f"{value:.{significant - 1}e}")


def joules(value: float) -> str:
    """1.23 J, 45.6 mJ, 789 µJ: scaled as seconds are."""
    return f"{seconds(value)[:-1]}J"


def size(value: float) -> str:
    """512 B, 64.0 MiB, 1.50 GiB (powers of 1024)."""
    scale, unit = next(((s, u) for s, u in _BYTES if abs(value) >= s * 0.9995), (1, "B"))
    return f"{value:.0f} B" if scale == 1 else f"{digits(value / scale)} {unit}"


def rate(value: float) -> str:
    """12.3 GB/s, or 2.29 MB/s below a tenth of one (powers of 1000, as links and memories are quoted)."""
    return f"{digits(value / 1e9)} GB/s" if value >= 0.1e9 or not value else f"{digits(value / 1e6)} MB/s"


def frequency(value: float) -> str:
    """1.98 GHz, 345 MHz."""
    return f"{digits(value / 1e9)} GHz" if value >= 0.9995e9 else f"{digits(value / 1e6)} MHz"


def ratio(value: float) -> str:
    """2.31×."""
    return f"{digits(value)}×"


def percent(value: float) -> str:
    """12 %, 1.5 %."""
    return f"{digits(value * 100, 2)} %"


def parse_size(text: str) -> int:
    """Bytes from `2GiB`, `512 MiB`, `1.5 GB` (powers of 1000) or a plain number of bytes; at least 1.

    Raises `ValueError`.
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    scale = _SIZES.get(match[2].lower()) if match else None
    size = float(match[1]) * scale if match and scale else 0.0
    if not 0.5 < size < 1 << 63:
        raise ValueError(f"{text!r} is not a size")
    return round(size)


_SIZES = {unit.lower(): scale for scale, unit in _BYTES}
_SIZES |= {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}


def times(value: Ratio) -> str:
    """A ratio with its interval: 2.00× (1.98× to 2.02×)."""
    return f"{ratio(value.value)} ({ratio(value.low)} to {ratio(value.high)})"
