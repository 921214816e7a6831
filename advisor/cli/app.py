"""The command line: options, exit codes, what goes to stdout and what to stderr. Nothing else.

Imports wait until a command needs them, so that `advisor --help` answers at once.
"""

from __future__ import annotations

import atexit
import errno
import io
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import typer

from advisor.cli import comparing, fleets, listing, options, profiling, reporting, startup
from advisor.cli.console import AROUND, BUG, READER_GONE, REAL, Around, drop, flush, say, settle
from advisor.errors import INTERRUPTED, AdvisorError, FileProblem
from advisor.version import __version__

app = typer.Typer(
    help="Which memory strategy should my code use on this device, how sure are we, and what do I change?",
    epilog="Exit codes: 0 done; 1 a gate failed; 2 wrong usage; 3 the workload cannot be loaded or "
    "is wrong; 4 nothing could be measured or predicted; 5 a file is missing, damaged or in an "
    "unknown format; 70 internal error; 130 interrupted; 141 broken pipe.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_LONGEST = 2000
"""Most characters of a message. Ours are shorter, but a value in one may have 100,000."""


def main(around: Around = REAL) -> NoReturn:
    """The entry point. A known error is one message and its exit code; a bug is a traceback and 70."""
    AROUND.set(around)
    settle()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without µ shows ?
    try:
        _take_signals()
        _run_and_tell()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Python is about to end
        sys.exit(INTERRUPTED)


def _run_and_tell() -> NoReturn:
    """Runs the command; what it raises is told, and has its exit code."""
    try:
        _run()
    except AdvisorError as error:
        say(f"error: {error.message}" if error.exit_code else error.message, most=_LONGEST)
        if error.next_step:
            say(f"  next: {error.next_step}", most=_LONGEST)
        if error.detail:
            say(f"\n{error.detail}")
        sys.exit(error.exit_code)
    except OSError as problem:
        with suppress(OSError):
            flush()
        if signal.getsignal(signal.SIGTERM) is _ignored:  # the terminal itself may be gone
            sys.exit(INTERRUPTED)
        what = problem.filename or "a file or stream"
        say(f"error: {what} cannot be read or written: {problem.strerror or problem}", most=_LONGEST)
        say(f"  next: {_next_step(problem)}")
        sys.exit(FileProblem.exit_code)
    except Exception:
        startup.leave_if_hidden()
        say(traceback.format_exc())
        say("Internal error in advisor. Please report it with the traceback above.")
        sys.exit(BUG)


def _next_step(problem: OSError) -> str:
    try:
        Path.cwd()
    except OSError:
        return "The working directory is not there any more: change to one that exists."
    if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "Is the disk full?"
    return "Check that what the message names is there and may be read and written."


def _run() -> NoReturn:
    """Runs the command and flushes its output; a reader that went away has an exit code of its own. Click
    would exit with 1, the code of a failed gate, and leaves another stdout behind."""
    stdout, code = sys.stdout, None
    try:
        code = app(prog_name="advisor", standalone_mode=False) or 0
    except SystemExit as ended:
        code = ended.code
    except Exception as wrong:
        # Click's errors, of which Typer does not export the base class: their messages, without secrets.
        show, code = getattr(wrong, "show", None), getattr(wrong, "exit_code", None)
        if isinstance(wrong, AdvisorError) or show is None or not isinstance(code, int):
            raise
        message = io.StringIO()
        show(message)
        say(message.getvalue().rstrip())
    try:
        if sys.stdout is not stdout:
            raise BrokenPipeError
        flush()
    except BrokenPipeError:
        drop()
        code = code if sys.stdout is stdout and code else READER_GONE
    sys.exit(code)


@app.callback(invoke_without_command=True)
def _version(version: options.Version = False) -> None:
    if version:
        print(f"advisor {__version__}")
        raise typer.Exit


app.command(cls=options.ProfileCommand)(profiling.profile)
app.command(cls=options.Grouped)(fleets.fleet)
app.command(cls=options.Grouped)(reporting.report)
app.command(cls=options.Grouped)(reporting.predict)
app.command(cls=options.Grouped)(comparing.compare)
app.command()(reporting.history)
app.command()(listing.new)
app.command()(reporting.trace)
app.command()(reporting.doctor)
app.command()(listing.strategies)
app.command()(listing.rules)
app.add_typer(listing.devices, name="devices")


_ENDING = (signal.SIGTERM, signal.SIGHUP)


def _take_signals() -> None:
    """Ctrl-C, SIGTERM and SIGHUP interrupt, unless nohup or a shell's `&` made the process ignore them."""
    every = (signal.SIGINT, *_ENDING)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, every)
    for number in every:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else _as_interrupt)
    # At exit Python restores the default handlers; a signal then would change the exit code.
    atexit.register(lambda: [signal.signal(number, signal.SIG_IGN) for number in every])
    # Ctrl-C in what `exec` ran, as it does for a dataclass, ends `python -m` by SIGINT unless it runs again.
    atexit.register(lambda: exec(""))


def _as_interrupt(*_: object) -> NoReturn:
    """Interrupts at the first signal; further ones cannot interrupt the clean-up."""
    for number in _ENDING:
        signal.signal(number, _ignored)  # not SIG_IGN, which programs that are started would inherit
    raise KeyboardInterrupt


def _ignored(*_: object) -> None:
    """Handles a second SIGTERM."""
