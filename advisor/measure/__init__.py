"""Measuring: a screening process per strategy, then the final; from the parent down to the frames inside."""
