"""How far the model is from published measurements of devices left out of its fit, by memory class.

The figures stand in accuracy.json, as the package was made; `make accuracy` computes them from the cases in
tests/published.py, each predicted without its device and its source (tests/left_out.py).
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import get_args

from advisor.profiles.base import Record
from advisor.profiles.schema import MemoryClass

PATH = Path(__file__).parent / "accuracy.json"


class Accuracy(Record):
    """The model against the published cases of one memory class. Shares run from 0 to 1.

    None where no case can give a figure: a single strategy has no best one, two have no rank correlation.
    """

    cases: int
    figures: int
    choices: int
    """Cases with several strategies, in which one can be right."""
    right_share: float | None
    """Share of these in which the recommended strategy is the published best or within 5 % of it."""
    rule_right_share: float | None = None
    """The same of a rule: managed on one memory; on cards pinned, zero-copy for small sizes."""
    regret_mean: float | None = None
    """By how much the recommended strategy took longer than the best."""
    rule_regret_mean: float | None = None
    ratio_median: float | None
    """Predicted over published time, median over all figures."""
    ratio_90: float | None
    """The same, 90th percentile."""
    ratio_error_median: float | None
    """By how much the predicted ratio of two strategies misses the published one, median over all pairs."""
    inside_share: float | None
    """Published figures inside the predicted range."""
    ratio_inside_share: float | None
    """Published ratios of two strategies inside the predicted ratio's range."""
    width_median: float | None = None
    """The high end of a range over its low end."""
    rank_correlation: float | None
    """Spearman's, mean over the cases."""


@lru_cache(maxsize=1)
def by_class() -> dict[MemoryClass, Accuracy]:
    """The measured error of the model by memory class; a class without published cases is absent.

    The file's groups over all classes, and of what we measured ourselves, are for docs/accuracy.md alone.
    """
    rows = json.loads(PATH.read_text(encoding="utf-8"))["by_class"]
    return {name: Accuracy.model_validate(row) for name, row in rows.items() if name in get_args(MemoryClass)}
