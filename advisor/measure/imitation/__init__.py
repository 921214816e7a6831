"""CuPy imitated on the CPU: device stages run as CuPy would run them, to find what it refuses and awaits."""
