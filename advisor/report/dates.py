"""When something was made, for people."""

from __future__ import annotations

from advisor.report import words


def created(text: str) -> str:
    """`2026-01-02T03:04:05+00:00` as `2026-01-02 03:04 UTC`; any other form as it is."""
    day, separator, time = text.partition("T")
    utc = time.endswith(("+00:00", "Z"))
    return words.name(f"{day} {time[:5]} UTC" if separator and utc else text)
