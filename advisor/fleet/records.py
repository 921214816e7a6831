"""The messages between the command and a worker, as JSON: checked where they arrive, on either side."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from advisor.profiles.base import Record, optional, table
from advisor.profiles.schema import MemoryClass
from advisor.profiles.text_files import LARGEST

Name = Annotated[str, Field(max_length=300)]
Text = Annotated[str, Field(max_length=20_000)]


class Gpu(Record):
    """A GPU as the CUDA driver shows it. `uuid` as CUDA_VISIBLE_DEVICES takes it."""

    uuid: Name
    name: Name
    memory_class: MemoryClass
    integrated: bool


class Machine(Record):
    """A worker's machine. Its host and UUIDs stay with the run: no report has them."""

    host: Name
    advisor: Name
    python: Name
    cpu: Name
    cupy: Name | None = optional("Version; None where it is not installed")
    cupy_cuda: Annotated[int, Field(gt=0)] | None = optional("The CUDA release that CuPy is built for")
    driver_cuda: Annotated[int, Field(gt=0)] | None = optional(
        "The newest CUDA that the driver supports: 13000"
    )
    gpus: Annotated[tuple[Gpu, ...], Field(max_length=256)] = ()


class Task(Record):
    """One profile for a worker to make."""

    gpu: Name | None = optional("The UUID for CUDA_VISIBLE_DEVICES; None leaves it as it is")
    no_gpu: bool = False
    file: Name = Field(description="The workload's, among those sent")
    workload: Name | None = None
    options: dict[str, Any] = table("Those of `advisor.profile`")
    include_host: bool = False
    no_environment: bool = False
    command: Text = ""
    files: dict[str, str] = table("Relative path to its packed text")
    seconds: Annotated[float, Field(gt=0)] = Field(description="After which the worker ends it")


class Answer(Record):
    """How it ended. `lost` asks for another try elsewhere: the process died, or took too long."""

    status: Literal["profiled", "failed", "lost"]
    profile: Annotated[str, Field(max_length=LARGEST)] = ""
    reason: Text = ""
    next_step: Text = ""
    detail: Text = ""
    exit_code: Annotated[int, Field(ge=2, le=70)] = optional("Of `advisor profile` with that failure", 4)


def wrong(problem: ValidationError) -> str:
    """The first thing that is wrong with a record, in a line."""
    first = problem.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:300]
