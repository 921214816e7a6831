"""Measuring: one process per strategy and round, from the parent that starts them to the frames inside."""
