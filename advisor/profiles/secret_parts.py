"""Secrets whose whole is known: what they are made of, and longer parts of them in a text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator

from advisor.profiles.secret_forms import MASK

_LEAST, _ENOUGH = 8, 16
"""Characters of a part: half of the secret, within these bounds. Fewer stand in too many texts by chance."""
_GRAM, _MOST_PLACES, _LEAST_DISTINCT = 4, 8, 5
_BETWEEN = re.compile(r"""[\s,;:|&"'=]+""")
_LARGEST_JSON = 100_000


def pieces(value: str, is_secret: Callable[[str], bool]) -> Iterator[str]:
    """The lines of a secret, its fields between separators, and the texts in it if it is JSON."""
    yield from value.splitlines()
    yield value.strip().strip("\"'")
    if value.lstrip()[:1] in ("{", "["):
        if len(value) <= _LARGEST_JSON:
            yield from _of_json(value, is_secret)
    elif not _is_place(value):
        yield from _BETWEEN.split(value)


def _of_json(text: str, is_secret: Callable[[str], bool]) -> Iterator[str]:
    try:
        waiting = [("", json.loads(text))]
    except (ValueError, RecursionError):
        return
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(str(key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(name, inner) for inner in value]
        elif isinstance(value, str) and (not name or is_secret(name) or _looks_random(value)):
            yield from (value, *value.splitlines())


def _looks_random(text: str) -> bool:
    return bool(re.search(r"\d", text) and re.search(r"[A-Za-z]", text)) and not _is_place(text)


def _is_place(text: str) -> bool:
    """A path or a URL: parts of it stand in ordinary texts."""
    return "://" in text or text.lstrip("\"'").startswith(("/", "~", "./", "../"))


class Parts:
    """Finds parts of these secrets in time proportional to the text."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._places: dict[str, list[tuple[str, int]]] = {}
        for secret in secrets:
            if len(secret) <= _LEAST or len(set(secret)) < _LEAST_DISTINCT or _is_place(secret):
                continue
            if re.search(r"\s", secret):
                continue
            for at in range(len(secret) - _GRAM + 1):
                places = self._places.setdefault(secret[at : at + _GRAM], [])
                if len(places) < _MOST_PLACES:
                    places.append((secret, at))

    def mask(self, text: str) -> str:
        """The text without them."""
        return "".join(self._masked(text)) if self._places else text

    def _masked(self, text: str) -> Iterator[str]:
        done = at = 0
        # A part that is long enough holds one of the grams that begin at multiples of their length.
        while at <= len(text) - _GRAM:
            found = [
                self._around(text, at, done, place) for place in self._places.get(text[at : at + _GRAM], ())
            ]
            begin, end = max(filter(None, found), key=lambda part: part[1] - part[0], default=(0, 0))
            if end > at:
                yield f"{text[done:begin]}{MASK}"
                done = at = end
            else:
                at += _GRAM
        yield text[done:]

    def _around(self, text: str, at: int, floor: int, place: tuple[str, int]) -> tuple[int, int] | None:
        """Begin and end of what the text shares with the secret there, if that is enough of it."""
        secret, within = place
        begin, end = at, at + _GRAM
        while begin > floor and within > 0 and text[begin - 1] == secret[within - 1]:
            begin, within = begin - 1, within - 1
        after = place[1] + _GRAM
        while end < len(text) and after < len(secret) and text[end] == secret[after]:
            end, after = end + 1, after + 1
        return (begin, end) if end - begin >= min(_ENOUGH, max(_LEAST, len(secret) // 2)) else None
