"""What happened within a frame: our own events, what nsys saw, and how both are written down."""
