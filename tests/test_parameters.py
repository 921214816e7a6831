"""Parameters of a workload: its signature, and what `--set` may say."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Union

from every import every
from rendering import Accepted, refusals

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
    assert resolve(sample, parse_assignments(["n=8", " mode = b "])) == {
        "n": 8,
        "scale": 0.5,
        "fast": True,
        "mode": "b",
    }


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
WRONG: list[tuple[Any, tuple[str, ...]]] = [
    (int, ("", "1.5", "x", "1e-3", "1.25e1", "1,2", "nan", "inf", "2**-1", "0x10", "true")),
    (float, ("nan", "inf", "-inf", "1e999")),
    (bool, ("2",)),
    (ONE_OF, ("17",)),
    *((union, ("x",)) for union in UNIONS),
    *((kind, HUGE) for kind in (int, float, int | float)),
]
"""Absurdly large powers are not even computed."""
UNFILLABLE = (list, list[int], None, int | None, dict, "Missing", Literal[1.5], Literal[None], Any)
MISFITS: list[tuple[Any, Any]] = [
    *((int, 1.5), (int, True), (float, math.nan), (bool, 1), (str, 4), (Literal["a", "b"], "c")),
    (int | float, "x"),
]


def unannotated(default: Any) -> Definition:
    def bare(n=default): ...  # type: ignore[no-untyped-def]

    return workload(bare)


def test_what_is_no_value_is_refused(accepted: Accepted) -> None:
    calls = {f"{kind}, --set n={t}": partial(read, kind, t) for kind, texts in WRONG for t in texts}
    for texts in (["n=4", "n=5"], ["n=\x1b[31m"], ["n"], ["=4"], ["a b=4"], ["4=4"], [""]):
        calls[f"--sweep {texts}"] = partial(parse_assignments, texts, "--sweep")
    accepted(refusals(calls), "values-refused.txt")


def test_what_is_no_parameter_is_refused(accepted: Accepted) -> None:
    def stars(*n: int) -> None: ...
    def keywords(**n: int) -> None: ...
    def positional(n: int = 1, /) -> None: ...

    wrong = {f"n: {annotation} = 3": typed(annotation, 3) for annotation in UNFILLABLE}
    wrong |= {f"n: {annotation} = {default!r}": typed(annotation, default) for annotation, default in MISFITS}
    wrong |= {f"n={default!r}": unannotated(default) for default in (3, 0.5, True, "a", [])}
    wrong |= {function.__name__: workload(function) for function in (stars, keywords, positional)}
    calls = {name: partial(resolve, one, {}) for name, one in {**wrong, "n: int": typed(int)}.items()}
    calls["n: int = 1.5, --set n=4"] = partial(resolve, typed(int, 1.5), {"n": "4"})
    for name in ("scal", "qqq"):
        calls[f"--set {name}=1"] = partial(resolve, sample, {name: "1"})
    calls["--set where there is none"] = partial(resolve, workload(lambda: None), {"n": "1"})
    accepted(refusals(calls), "parameters-refused.txt")


def test_an_annotation_for_type_checkers_only_does_not_cost_the_others() -> None:
    @workload
    def sample(n: int = 4) -> Something: ...

    assert resolve(sample, {"n": "8"}) == {"n": 8}
