"""One module per way to place a buffer. `advisor.strategies.registry` says which buffer gets which."""
