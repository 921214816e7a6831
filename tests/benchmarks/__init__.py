"""Benchmarks, printed as ratios of what was measured in one run; nothing here fails on a slow machine."""
