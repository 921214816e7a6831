"""Benchmarks, printed as ratios of what was measured in one run; nothing here fails on a slow machine."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # what the tests share
