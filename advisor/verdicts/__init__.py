"""Which strategy, and how sure: one verdict over measured rows, another over predicted ones."""
