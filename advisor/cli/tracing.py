"""`advisor trace` and `advisor doctor`: what a tool saw, and what this machine can and cannot do."""

from __future__ import annotations

from advisor.cli import options
from advisor.cli.console import AROUND, text
from advisor.cli.streams import put


def trace(
    file: options.TraceFile,
    nsys: options.Nsys = None,
    as_json: options.Json = False,
    details: options.Details = False,
) -> None:
    """Summarize an Nsight Systems report.

    Copies, migrations, page faults, kernels, waits and idle time: per strategy where it was recorded under
    advisor's ranges, in total where it was not.
    """
    from advisor.nsys.capturing import read_report
    from advisor.profiles.scratch import scratch
    from advisor.report.traces import trace_page

    with scratch() as folder:
        told = read_report(file, nsys, folder)
    put(told.model_dump_json(indent=1) if as_json else text(trace_page(told), details=details))


def doctor(
    gpu: options.Gpu = None,
    nsys: options.Nsys = None,
    as_json: options.Json = False,
    details: options.Details = False,
) -> None:
    """Report what this machine can and cannot do.

    Each finding says what was found, what it means, and what to do next.

    Exit code 0 if `advisor profile` works (without a GPU, it predicts), 4 if there is a GPU but it cannot be
    measured.
    """
    import sys

    from advisor.doctor.checks import examine
    from advisor.doctor.facts import gather
    from advisor.errors import NothingMeasured
    from advisor.report.pages import doctor_page

    checkup = examine((AROUND.get().facts or gather)(gpu or 0, nsys))
    put(checkup.model_dump_json(indent=1) if as_json else text(doctor_page(checkup), details=details))
    if not checkup.ready:
        sys.exit(NothingMeasured.exit_code)
