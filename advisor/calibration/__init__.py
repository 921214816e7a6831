"""Measures this machine for the model and writes what was measured as a catalogue entry.

Read calibrations.py first. Each group of measurements runs in a separate process.
"""
