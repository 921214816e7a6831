"""Script mode: a CuPy script that knows nothing of advisor, under what can be imposed from outside."""
