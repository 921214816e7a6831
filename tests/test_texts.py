"""Texts from outside: bounded, printable, and no command to a CI system."""

from __future__ import annotations

import unicodedata

from every import every
from hypothesis import given
from hypothesis import strategies as st

from advisor.texts import bounded, for_log, printable


@given(st.text())
def test_nothing_is_left_that_a_terminal_obeys(text: str) -> None:
    shown = printable(text)
    assert not [c for c in shown if c not in "\t\n" and unicodedata.category(c) == "Cc"]
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029")
    assert printable(shown) == shown


@every(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\0b", "a\\x00b"),
        ("left \u202eright", "left \\u202eright"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("µs, 表, é\tand\n", "µs, 表, é\tand\n"),
    ],
)
def test_what_is_obeyed_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(alphabet=":# []abc\n\t"))
def test_no_line_is_a_workflow_command(text: str) -> None:
    shown = for_log(text)
    assert not any(line.strip().startswith("::") for line in shown.splitlines())
    assert "##[" not in shown


def test_other_colons_stay() -> None:
    assert for_log("a::b and 3:4\n# heading\n  ::error::x") == "a::b and 3:4\n# heading\n  : :error::x"


@given(st.text(), st.integers(60, 200))
def test_a_long_text_keeps_its_beginning_and_its_end(text: str, most: int) -> None:
    shown = bounded(text * 20, most)
    assert len(shown) <= most + 50
    assert shown.startswith((text * 20)[: most * 5 // 12])
    assert shown.endswith((text * 20)[-(most // 12) :])


def test_no_word_is_cut_where_a_long_text_is() -> None:
    """Half a secret could not be recognized."""
    for length in range(60, 130):
        shown = bounded("x" * length + " token-of-thirty-characters-0123 and then " * 9, 200)
        words = shown.partition(" [… ")[0].split() + shown.rpartition("…] ")[2].split()
        assert set(words) <= {"x" * length, "token-of-thirty-characters-0123", "and", "then"}
