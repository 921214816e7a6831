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
from advisor.workloads.parameters import parse_assignments, resolve

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


UNIONS: tuple[Any, ...] = (int | float, Union[int, float], Union[float, int])  # noqa: UP007
ONE_OF: Any = Literal["small", 16, "2**3", True]
VALUES: list[tuple[Any, dict[str, Any]]] = [
    (int, {"4096": 4096, "-3": -3, "0": 0, "1_000": 1000, "1e6": 1_000_000, "1E6": 1_000_000, "1.5e3": 1500}),
    (int, {"2**24": 1 << 24, "2 ** 24": 1 << 24, "2**60": 1 << 60, "10**18": 10**18}),
    (int, {"1<<20": 1 << 20, "3<<2": 12, "1<<62": 1 << 62}),
    (float, {"0.5": 0.5, "1e-3": 1e-3, "2**3": 8.0, "-1": -1.0, "1e6": 1e6, "7": 7.0}),
    (bool, {"true": True, "false": False, "1": True, "0": False, "no": False, "on": True}),
    (str, {text: text for text in ("", "2**24", "1e6", " x", "nan", "true")}),
    *((union, {"2**3": eight, "0.5": 0.5}) for union, eight in zip(UNIONS, (8, 8, 8.0), strict=True)),
    (int | str, {"4": 4, "auto": "auto"}),
    (ONE_OF, {"small": "small", "16": 16, "2**4": 16, "2**3": "2**3", "True": True}),
]


@every(
    ("annotation", "text", "value"),
    [(kind, text, value) for kind, texts in VALUES for text, value in texts.items()],
)
def test_a_text_is_read_as_its_annotation_says(annotation: Any, text: str, value: Any) -> None:
    result = read(annotation, text)
    assert (result, type(result)) == (value, type(value))


HUGE = ("2**9999999999", "1<<9999999999", "999**999", "1000000**7")
WRONG: list[tuple[Any, tuple[str, ...], str]] = [
    (int, ("", "1.5", "x", "1e-3", "1.25e1", "nan", "inf", "2**-1", "0x10", "true"), "is not of type int"),
    (float, ("nan", "inf", "-inf", "1e999"), "is not finite"),
    (bool, ("2",), "is not of type bool"),
    (ONE_OF, ("17",), "is not one of 'small', 16, '2**3', True"),
    *((union, ("x",), "is not of type ") for union in UNIONS),
    *((kind, HUGE, "is too large") for kind in (int, float, int | float)),
]


@every(("annotation", "text", "message"), [(kind, t, told) for kind, texts, told in WRONG for t in texts])
def test_a_text_that_is_no_value_is_refused(annotation: Any, text: str, message: str) -> None:
    """Absurdly large powers are not even computed."""
    with pytest.raises(UsageError) as raised:
        read(annotation, text)
    assert f"--set n={text} {message}" in raised.value.message


@given(st.integers(-(10**18), 10**18))
def test_every_integer_is_read_as_written(value: int) -> None:
    assert read(int, str(value)) == value
    assert read(int, f"{value:_}") == value


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


def test_a_parameter_without_default_or_with_a_star() -> None:
    with pytest.raises(UsageError) as raised:
        resolve(typed(int), {})
    assert not missing(raised.value.message, "'n'", "'sample'")
    assert "--set n=VALUE" in raised.value.next_step

    def stars(*n: int) -> None: ...
    def keywords(**n: int) -> None: ...
    def positional(n: int = 1, /) -> None: ...

    for function in (stars, keywords, positional):
        with pytest.raises(WorkloadError, match="plain names"):
            resolve(workload(function), {})


@every(
    ("annotation", "default", "wanted"),
    [
        (int, 1.5, "of type int"),
        (int, True, "of type int"),
        (float, math.nan, "of type float"),
        (bool, 1, "of type bool"),
        (str, 4, "of type str"),
        (Literal["a", "b"], "c", "one of 'a', 'b'"),
        (int | float, "x", "of type int | float"),
    ],
)
def test_a_default_must_fit_its_annotation(annotation: Any, default: Any, wanted: str) -> None:
    for settings in ({}, {"n": "4"}):
        with pytest.raises(WorkloadError) as raised:
            resolve(typed(annotation, default), settings)
        assert not missing(raised.value.message, "'n'", "'sample'", repr(default), f"not {wanted}")


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


def test_assignments() -> None:
    assert parse_assignments(["n=5", " mode = a=b ", "e="]) == {"n": "5", "mode": "a=b", "e": ""}
    assert parse_assignments([]) == {}
    for wrong, message in ((["n=4", "n=5"], "--set n .*twice"), (["n=\x1b[31m"], "unprintable")):
        with pytest.raises(UsageError, match=message):
            parse_assignments(wrong)


@every("text", ["n", "=4", "a b=4", "4=4", ""])
def test_what_is_no_assignment(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_assignments([text], "--sweep")
    assert not missing(raised.value.message, "--sweep", repr(text), "NAME=VALUE")
