"""Two profiles compared: what differs around them, then strategy by strategy; gates on it.

Pure functions of the two profiles. BASE is what was, HEAD what is now; a ratio is HEAD's time over BASE's.
"""

from __future__ import annotations

from advisor.verdicts.comparing.comparisons import ComparedDevice, Comparison, compare, require_gateable
from advisor.verdicts.comparing.gates import Gate, Ruling, judge, parse_gates
from advisor.verdicts.comparing.rows import Compared, OneSided, Paired
from advisor.verdicts.comparing.versions import (
    VersionComparison,
    VersionRun,
    compare_versions,
    differences,
    require_same_frames,
)

__all__ = [
    "Compared",
    "Comparison",
    "ComparedDevice",
    "Gate",
    "OneSided",
    "Paired",
    "Ruling",
    "VersionComparison",
    "VersionRun",
    "compare",
    "compare_versions",
    "differences",
    "judge",
    "parse_gates",
    "require_gateable",
    "require_same_frames",
]
