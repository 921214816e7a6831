"""Strategies: placements of buffers, the transfers a frame then needs, the interface of what runs them."""
