"""HEAD's results against BASE's, from what two reference runs kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_versions import compared as versions_of

from advisor.measure.kept_results import KeptResults, Repeated, compare_results
from advisor.verdicts.comparing.gates import judge, parse_gates
from advisor.verdicts.comparing.results import Results


def kept(folder: Path, *frames: Mapping[str, Any], **changes: Any) -> Path:
    """A reference run with those results."""
    results = KeptResults(folder)
    for number, frame in enumerate(frames):
        results.keep(number, frame)
    lengths = dict.fromkeys(frames[0], 1.0)
    results.close(Repeated(**{"frames": len(frames), "unlike": {}, "lengths": lengths, **changes}))
    return folder


def compared(folder: Path, base: Any, head: Any) -> Results:
    return compare_results(kept(folder / "base", {"out": base}), kept(folder / "head", {"out": head}))


def grid(**changes: float) -> Any:
    values = np.ones((5, 20), np.float32)
    for place, value in changes.items():
        values[tuple(map(int, place.strip("_").split("_")))] = value
    return values


@pytest.mark.parametrize(
    ("base", "head", "told"),
    [
        (grid(), grid(_4_7=1.00001), ""),
        (grid(), grid(_4_7=4.1, _0_0=1.5), "`out` differs in 2.0 % of its elements, largest 3.1 at [4, 7]"),
        (grid(), grid() * 0, "`out` differs in all of its elements, largest 1 at [0, 0]"),
        (
            np.arange(500),
            -np.arange(500),
            "`out` differs in all but 1 of its elements, largest 1e+03 at [499]",
        ),
        (grid(), grid(_4_7=np.nan), "`out` differs in 1.0 % of its elements at [4, 7]"),
        (grid(_4_7=np.nan), grid(_4_7=np.nan), ""),
        (grid(), grid().astype(np.float16), ""),
        (grid(), grid().astype(np.int32), ""),
        (grid(), grid()[:4], "`out` has shape [4, 20] instead of [5, 20]"),
        (grid(), grid().reshape(20, 5), ""),
        (np.arange(9), np.arange(9) + 1, "`out` differs in all of its elements, largest 1 at [0]"),
        (np.array(2.0), np.array(3.0), "`out` differs in all of its elements, largest 1"),
    ],
)
def test_buffers_are_compared_within_the_tolerance(tmp_path: Path, base: Any, head: Any, told: str) -> None:
    found = compared(tmp_path, base, head)
    assert found.compared == ("out",)
    assert found.sentence == (told and f"HEAD computes something else: {told}")


@pytest.mark.parametrize(("shape", "place"), [((5, 20), " at [0, 3]"), ((9,), " at [3]"), ((50_000,), "")])
def test_the_first_frame_that_differs_is_told(tmp_path: Path, shape: tuple[int, ...], place: str) -> None:
    """Without a place in a row that may be some elements of a longer one."""
    same, other = np.ones(shape), np.ones(shape)
    other.flat[3] = 9
    base, head = ([{"out": array} for array in (same, same, last)] for last in (same, other))
    found = compare_results(kept(tmp_path / "a", *base), kept(tmp_path / "b", *head))
    assert found.sentence.endswith(f"largest 8{place} from frame 2 on")


@pytest.mark.parametrize("side", ["base", "head"])
def test_what_differs_between_two_runs_of_one_version_is_neither_equal_nor_different(
    tmp_path: Path, side: str
) -> None:
    changes = {name: {"unlike": {"out": 0}} if name == side else {} for name in ("base", "head")}
    folders = [
        kept(tmp_path / name, {"out": grid(_0_0=float(n))}, **changes[name]) for n, name in enumerate(changes)
    ]
    found = compare_results(*folders)
    assert (found.compared, found.different) == ((), ())
    assert (found.unrepeatable, found.unsteady) == ((("out",), ()) if side == "base" else ((), ("out",)))
    assert "differ in `out`" in next(found.notes)


def test_without_results_there_is_a_reason(tmp_path: Path) -> None:
    found = compare_results(tmp_path / "none", kept(tmp_path / "head", {"out": grid()}))
    assert found.absent == "the reference run of BASE failed"
    found = compare_results(kept(tmp_path / "a", {"one": grid()}), kept(tmp_path / "b", {"other": grid()}))
    assert found.absent == "they have no buffer of results in common"


def test_a_result_that_head_no_longer_has_is_told(tmp_path: Path) -> None:
    base = kept(tmp_path / "base", {"out": grid(), "mask": grid()})
    found = compare_results(base, kept(tmp_path / "head", {"out": grid(), "more": grid()}))
    assert (found.compared, found.gone) == (("out",), ("mask",))
    assert list(found.notes) == ["HEAD has no `mask`, so these results of BASE were not compared."]
    compared_too = replace(versions_of({"pageable": (1.0, 0.99, 1.01)}), results=found)
    (ruling,) = judge(compared_too, parse_gates(["results-differ"]))
    assert ruling.status == "inconclusive"
