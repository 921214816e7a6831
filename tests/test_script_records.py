"""Scripts not written for advisor, on what plays the GPU; tests/gpu holds the same table against a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from script_records import RECORDS, SCRIPTS, record, rows


@pytest.mark.parametrize("name", RECORDS)
def test_a_script_is_recorded_as_on_a_gpu(name: str, tmp_path: Path) -> None:
    run = record(SCRIPTS / f"{name}.py", tmp_path, "cpu")
    assert run.error == ""
    assert rows(run) == RECORDS[name]
    assert {each.host_seconds for each in run.crossings} == {None}, "there is no GPU, so nothing has a time"
