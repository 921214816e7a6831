"""A catalogue entry as the text of a catalogue file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from advisor.devices.entries import CatalogueEntry, Figure, Figures


def write(entry: CatalogueEntry, comments: Sequence[str] = ()) -> str:
    """TOML that `advisor.devices.catalogue.load` reads as an equal entry, the comments as lines on top."""
    lines = [f"# {_one_line(comment)}".rstrip() for comment in comments]
    lines += ["", f"name = {_text(entry.name)}", f"memory_class = {_text(entry.memory_class)}"]
    lines += ["", "[attributes]"]
    for key, attribute in entry.attributes.items():
        value = _text(attribute.value) if isinstance(attribute.value, str) else str(attribute.value)
        lines.append(f"{key} = {{ value = {value}, source = {_text(attribute.source)} }}")
    lines += ["", "[figures]", *_figures(entry.figures)]
    return "\n".join(lines).lstrip("\n") + "\n"


def _figures(figures: Figures) -> Iterator[str]:
    for key in Figures.model_fields:
        figure: Figure | None = getattr(figures, key)
        if figure is not None:
            numbers = {"value": figure.value, "low": figure.low, "high": figure.high}
            told = ", ".join(f"{name} = {number!r}" for name, number in numbers.items() if number is not None)
            yield f"{key} = {{ {told}, source = {_text(figure.source)} }}"


def _text(text: str) -> str:
    """A basic string: TOML's escapes are JSON's, and DEL, which JSON leaves alone, needs one."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
