"""The process that records one of tests' scripts: started, or forked by the tests' server."""

from __future__ import annotations

from pathlib import Path

from advisor.measure.jobs import ScriptJob
from advisor.measure.recording.worker import record


def main(_: list[str]) -> None:
    """Records the script of the working directory's job; a library of the server's is imported already."""
    directory = Path.cwd()  # the script may go elsewhere
    job = ScriptJob.model_validate_json((directory / "job.json").read_text())
    (directory / "record").write_text(record(job).model_dump_json())
