"""Parameters of a workload: its signature, and what `--set` may say."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, Optional, Union

import pytest
from every import every
from hypothesis import given
from hypothesis import strategies as st
from running import missing

from advisor.errors import UsageError, WorkloadError
from advisor.workloads.definition import Definition, workload
from advisor.workloads.parameters import parse_assignments, parse_number, resolve

if TYPE_CHECKING:
    from nowhere import Something  # type: ignore[import-not-found]


def typed(annotation: Any, default: Any = None) -> Definition:
    """A workload with one parameter `n` of that annotation; without a default where None is given."""

    def sample(n=default): ...  # type: ignore[no-untyped-def]

    sample.__annotations__["n"] = annotation
    if default is None:
        sample.__defaults__ = ()
    return workload(sample)


def read(annotation: Any, text: str) -> Any:
    return resolve(typed(annotation), {"n": text})["n"]


@workload
def sample(n: int = 4, scale: float = 0.5, fast: bool = True, mode: str = "a") -> None: ...


def test_defaults_and_settings() -> None:
    assert resolve(sample, {}) == {"n": 4, "scale": 0.5, "fast": True, "mode": "a"}
    assert resolve(sample, {"mode": "b", "n": "8"}) == {"n": 8, "scale": 0.5, "fast": True, "mode": "b"}


@every(
    ("text", "value"),
    [
        ("4096", 4096),
        ("-3", -3),
        ("2**24", 1 << 24),
        ("2 ** 24", 1 << 24),
        ("1<<20", 1 << 20),
        ("3<<2", 12),
        ("2**60", 1 << 60),
        ("10**18", 10**18),
        ("1<<62", 1 << 62),
        ("1e6", 1_000_000),
        ("1E6", 1_000_000),
        ("1.5e3", 1500),
        ("1_000", 1000),
        ("0", 0),
    ],
)
def test_integers(text: str, value: int) -> None:
    found = read(int, text)
    assert found == value
    assert type(found) is int


@every("text", ["", "1.5", "x", "1e-3", "1.25e1", "nan", "inf", "2**-1", "0x10", "true"])
def test_what_is_no_integer(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(int, text)
    assert not missing(raised.value.message, f"--set n={text} is", "type int")


@every("text", ["2**9999999999", "1<<9999999999", "999**999", "1000000**7"])
def test_absurdly_large_powers_are_not_even_computed(text: str) -> None:
    for annotation in (int, float, int | float):
        with pytest.raises(UsageError) as raised:
            read(annotation, text)
        assert f"--set n={text} is too large" in raised.value.message


@given(st.integers(-(10**18), 10**18))
def test_every_integer_is_read_as_written(value: int) -> None:
    assert read(int, str(value)) == value
    assert read(int, f"{value:_}") == value


@every(
    ("text", "value"), [("0.5", 0.5), ("1e-3", 1e-3), ("2**3", 8.0), ("-1", -1.0), ("1e6", 1e6), ("7", 7.0)]
)
def test_floats(text: str, value: float) -> None:
    found = read(float, text)
    assert found == value
    assert type(found) is float


@every("text", ["nan", "inf", "-inf", "1e999"])
def test_floats_must_be_finite(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(float, text)
    assert f"--set n={text} is not finite" in raised.value.message


@every(
    ("text", "value"),
    [("true", True), ("false", False), ("1", True), ("0", False), ("no", False), ("on", True)],
)
def test_bools(text: str, value: bool) -> None:
    assert read(bool, text) is value


def test_what_is_no_bool() -> None:
    with pytest.raises(UsageError, match=r"--set n=2 .* bool"):
        read(bool, "2")


@every("text", ["", "2**24", "1e6", " x", "nan", "true"])
def test_strings_stay_as_they_are(text: str) -> None:
    assert read(str, text) == text


def test_one_of_several() -> None:
    choices = Literal["small", 16, "2**3", True]
    assert read(choices, "small") == "small"
    assert read(choices, "16") == 16
    assert read(choices, "2**4") == 16
    assert read(choices, "2**3") == "2**3"
    assert read(choices, "True") is True
    with pytest.raises(UsageError) as raised:
        read(choices, "17")
    assert not missing(raised.value.message, "--set n=17", "'small', 16, '2**3', True")


@every("annotation", [int | float, Union[int, float], Union[float, int]])  # noqa: UP007
def test_a_union_takes_what_fits(annotation: Any) -> None:
    assert read(annotation, "2**3") == 8
    assert read(annotation, "0.5") == 0.5
    with pytest.raises(UsageError, match=r"is not of type (int \| float|typing.Union\[.*\])\n"):
        read(annotation, "x")


def test_a_union_with_text() -> None:
    assert read(int | str, "4") == 4
    assert read(int | str, "auto") == "auto"


@every(
    "annotation",
    [list, list[int], None, Optional[int], int | None, dict, "Missing", Literal[1.5], Literal[None], Any],  # noqa: UP045
)
def test_annotations_that_no_text_can_fill(annotation: Any) -> None:
    with pytest.raises(WorkloadError) as raised:
        resolve(typed(annotation, 3), {})
    assert not missing(raised.value.message, "'n'", "'sample'")
    assert "int, float, bool, str" in raised.value.next_step


@every(("default", "guess"), [(3, "int"), (0.5, "float"), (True, "bool"), ("a", "str"), ([], "int")])
def test_a_parameter_without_annotation(default: Any, guess: str) -> None:
    def bare(n=default): ...  # type: ignore[no-untyped-def]

    with pytest.raises(WorkloadError) as raised:
        resolve(workload(bare), {})
    assert not missing(raised.value.message, "'n'", "'bare'")
    assert f"n: {guess}" in raised.value.next_step


def test_a_parameter_without_default() -> None:
    with pytest.raises(UsageError) as raised:
        resolve(typed(int), {})
    assert not missing(raised.value.message, "'n'", "'sample'")
    assert "--set n=VALUE" in raised.value.next_step


@every(
    ("annotation", "default", "wanted"),
    [
        (int, 1.5, "of type int"),
        (int, "big", "of type int"),
        (int, True, "of type int"),
        (float, math.nan, "of type float"),
        (float, math.inf, "of type float"),
        (bool, 1, "of type bool"),
        (str, 4, "of type str"),
        (Literal["a", "b"], "c", "one of 'a', 'b'"),
        (int | float, "x", "of type int | float"),
        (int, [], "of type int"),
    ],
)
def test_a_default_must_fit_its_annotation(annotation: Any, default: Any, wanted: str) -> None:
    for settings in ({}, {"n": "4"}):
        with pytest.raises(WorkloadError) as raised:
            resolve(typed(annotation, default), settings)
        assert not missing(raised.value.message, "'n'", "'sample'", repr(default), f"not {wanted}")


def test_an_integer_will_do_where_a_float_is_wanted() -> None:
    assert resolve(typed(float, 2), {}) == {"n": 2}


def test_an_annotation_for_type_checkers_only_does_not_cost_the_others() -> None:
    @workload
    def sample(n: int = 4) -> Something: ...

    assert resolve(sample, {"n": "8"}) == {"n": 8}


def test_an_unknown_parameter_offers_the_nearest() -> None:
    with pytest.raises(UsageError) as raised:
        resolve(sample, {"scal": "1"})
    assert not missing(raised.value.message, "'sample'", "'scal'", "'scale'?")
    assert "n, scale, fast, mode" in raised.value.next_step
    with pytest.raises(UsageError, match=r"'qqq'\n"):
        resolve(sample, {"qqq": "1"})
    with pytest.raises(UsageError) as raised:
        resolve(workload(lambda: None), {"n": "1"})
    assert "none" in raised.value.next_step


def test_star_parameters() -> None:
    def stars(*n: int) -> None: ...
    def keywords(**n: int) -> None: ...
    def positional(n: int = 1, /) -> None: ...

    for function in (stars, keywords, positional):
        with pytest.raises(WorkloadError, match="plain names"):
            resolve(workload(function), {})


def test_assignments() -> None:
    assert parse_assignments(["n=5", " mode = a=b ", "e="]) == {"n": "5", "mode": "a=b", "e": ""}
    assert parse_assignments([]) == {}
    with pytest.raises(UsageError, match=r"^--set n .*twice\n"):
        parse_assignments(["n=4", "n=5"])
    with pytest.raises(UsageError, match=r"^--set 'n' is not NAME=VALUE\n"):
        parse_assignments(["n"])


@every("text", ["n", "=4", "a b=4", "4=4", ""])
def test_what_is_no_assignment(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_assignments([text], "--sweep")
    assert not missing(raised.value.message, "--sweep", repr(text), "NAME=VALUE")


def test_what_cannot_be_printed() -> None:
    with pytest.raises(UsageError, match="unprintable"):
        parse_assignments(["n=\x1b[31m"])


@every(("text", "value"), [("4096", 4096), ("2**24", 1 << 24), ("1e6", 10**6), ("0.5", 0.5)])
def test_numbers(text: str, value: float) -> None:
    assert parse_number(f" {text} ") == value
    assert type(parse_number(text)) is type(value)


def test_what_is_no_number() -> None:
    with pytest.raises(ValueError, match="could not convert"):
        parse_number("x")
