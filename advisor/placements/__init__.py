"""One module per way to place a buffer. `advisor.strategies` says which buffer gets which."""
