"""The saved data: what one run learned, how it is written, read and redacted, and what the user preferred."""
