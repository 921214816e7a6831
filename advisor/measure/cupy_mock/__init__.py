"""CuPy mocked on the CPU: arrays and a module that refuse and wait as CuPy does, and count what is moved."""
