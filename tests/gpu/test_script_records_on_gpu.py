"""The records of tests/scripts on a real GPU are those of what plays one, with times."""

from __future__ import annotations

from pathlib import Path

import pytest
from script_records import RECORDS, SCRIPTS, record, rows


@pytest.mark.parametrize("name", RECORDS)
def test_a_script_is_recorded_as_without_a_gpu(name: str, tmp_path: Path) -> None:
    needs = "cupy" if "import cupy" in (SCRIPTS / f"{name}.py").read_text() else "torch"
    pytest.importorskip("numba.cuda" if name == "saxpy" else needs)
    run = record(SCRIPTS / f"{name}.py", tmp_path, "cuda")
    for each in run.crossings:
        print(each.place.line, each.call, each.host_seconds, each.kernel_seconds, each.stream_seconds)
    assert run.error == ""
    assert rows(run) == RECORDS[name]
    copies = [each for each in run.crossings if each.kind in ("upload", "download")]
    assert all(each.stream_seconds for each in copies if each.call != "ndarray.__getitem__")
