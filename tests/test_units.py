"""Numbers with their units."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor import units
from advisor.texts import bounded, for_log, printable

SHOWN: dict[Callable[[float], str], dict[float, str]] = {
    units.seconds: {0: "0 s", 1.234e-9: "1.23 ns", 0.9994: "999 ms", 0.9996: "1.00 s", 3600: "3600 s"}
    | {-0.002: "-2.00 ms", 1e-12: "0.00100 ns", 1e-300: "1.00e-300 s", 1.234e300: "1.23e+300 s"},
    units.size: {0: "0 B", 1: "1 B", 1023: "1023 B", 1024: "1.00 KiB", 1000 << 20: "1000 MiB"}
    | {3 << 29: "1.50 GiB", (1 << 30) - 1: "1.00 GiB", 5 << 40: "5.00 TiB", -2048: "-2.00 KiB"},
    units.frequency: {1.98e9: "1.98 GHz", 345e6: "345 MHz", 999.6e6: "1.00 GHz", 1e9: "1.00 GHz"},
    units.rate: {25.6e9: "25.6 GB/s", 3.35e12: "3350 GB/s", 80e6: "80.0 MB/s"},
    units.ratio: {2.309: "2.31×", 1: "1.00×"},
    units.percent: {0.123: "12 %", 0.015: "1.5 %", 1: "100 %", -0.05: "-5.0 %", 0: "0 %"},
}


def test_three_digits_with_a_unit() -> None:
    shown = {unit: {value: unit(value) for value in texts} for unit, texts in SHOWN.items()}
    assert shown == SHOWN


SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
SIZES = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
TIMES = st.floats(1e-15, 1e15) | st.sampled_from([999.5e-6, 0.995])


@given(TIMES, st.integers(1, 1 << 60), st.integers(2, 5))
def test_what_is_shown_is_the_number_to_so_many_digits(time: float, size: int, digits: int) -> None:
    shown = ((units.seconds(time, digits), time, SECONDS, digits), (units.size(size), size, SIZES, 3))
    for text, value, scales, significant in shown:
        number, unit = text.split(" ")
        assert float(number) * scales[unit] == pytest.approx(value, rel=5.01 * 10.0**-significant)
        assert 1 <= float(number) < (1000 if scales is SECONDS else 1024) or unit in ("s", "ns", "TiB")


# Texts


@given(st.text())
def test_nothing_is_left_that_a_terminal_obeys(text: str) -> None:
    shown = printable(text)
    assert not [c for c in shown if c not in "\t\n" and unicodedata.category(c) == "Cc"]
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029")
    assert printable(shown) == shown


def test_what_is_obeyed_is_shown_as_an_escape_and_other_colons_stay() -> None:
    shown = {
        "\x1b[31mred": "\\x1b[31mred",
        "a\0b": "a\\x00b",
        "left \u202eright": "left \\u202eright",
        "one\r\ntwo\rthree": "one\ntwo\nthree",
        "µs, 表, é\tand\n": "µs, 表, é\tand\n",
    }
    assert {text: printable(text) for text in shown} == shown
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
