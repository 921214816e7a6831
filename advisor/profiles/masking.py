"""Masks the texts of a record by their kind: free text whole, labels so that they still refer to one another,
words of advisor's own never."""

from __future__ import annotations

from collections.abc import Callable

from advisor.profiles.base import TextKind
from advisor.profiles.schema import RAISED, WRONG_RESULTS
from advisor.profiles.secret_forms import mask_forms
from advisor.texts import printable

_STEPS = frozenset((
    "host", "device", "to-device", "to-host", "to-peer", "synchronize", "host-copy", "copy-in", "copy-out",
    "length", "order", "until", "frame", "strategy", "setup",
))  # fmt: skip
"""Words of advisor's in labels: alone, or before a colon and the user's name."""
_BEGINNINGS = (RAISED, WRONG_RESULTS, "Interrupted")
"""Beginnings by which other parts recognize a text."""


class Masking:
    """For `advisor.profiles.base.cleaned`, on one record; text: masks a free text."""

    def __init__(self, text: Callable[[str], str]) -> None:
        self._text = text
        self._labels: dict[str, str] = {}

    def __call__(self, text: str, kind: TextKind) -> str:
        if kind is TextKind.WORD:
            return printable(mask_forms(text))
        if kind is TextKind.NAME:
            return self._label(text)
        begin = next((begin for begin in _BEGINNINGS if text.startswith(begin)), "")
        return begin + printable(self._text(text[len(begin) :]))

    def _label(self, text: str) -> str:
        step, colon, name = text.partition(":")
        if step not in _STEPS:
            step, colon, name = "", "", text
        return f"{step}{colon}{self._name(name)}" if name else text

    def _name(self, name: str) -> str:
        """Masked names stay as many as they are: the second one that is masked alike gets a number."""
        if name not in self._labels:
            masked, number = printable(self._text(name)), 1
            taken = self._labels.values() if masked != name else ()
            made = masked
            while made in taken:
                number += 1
                made = f"{masked}{number}"
            self._labels[name] = made
        return self._labels[name]
