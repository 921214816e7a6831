"""Of the matrix: streams, signals, folders, variables, and runs side by side."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.faults.case import COMMAND, FILES, SAVED, SHORT, Case, workload

_RUN = f"{{advisor}} {COMMAND}"
_SLOW = {"w.py": workload(produce="time.sleep(0.2)")}
_WITH_SIGNALS = (
    '{python} -c "import signal, os, sys; signal.signal(2, signal.default_int_handler); signal.signal(1, 0); '
    "os.execvp('bash', ['bash', '-c', sys.argv[1]])\""
)
_INHERITED = (
    '{python} -c "import signal, os, sys; {what}; '
    f"os.execvp(sys.executable, [sys.executable, '-m', 'advisor', *sys.argv[1:]])\" {COMMAND}"
)
_PROFILED: dict[str, tuple[int, str]] = {
    "output: closed": (5, f"{_RUN} >&-"),
    "output: stderr closed": (0, f"{_RUN} 2>&-"),
    "output: a full stderr": (0, f"{_RUN} 2>/dev/full"),
    "profile: both full": (5, f"{_RUN} >/dev/full 2>&1"),
    "profile: a JSON onto a full device": (5, f"{_RUN} --out - --format json >/dev/full"),
    "profile: stdin closed": (0, f"{_RUN} <&-"),
    "profile: no descriptor at all": (5, f"{_RUN} <&- >&- 2>&-"),
    "no home": (0, f"env -u HOME {_RUN}"),
    "a home that is not there": (0, f"HOME=/nonexistent/x {_RUN}"),
    "TMPDIR that is not there": (0, f"TMPDIR=/nonexistent/x {_RUN}"),
    "around: TMPDIR of odd characters": (0, f'mkdir "t \'$"; TMPDIR="$PWD/t \'$" {_RUN}'),
    "few open files": (0, f"ulimit -n 64; {_RUN}"),
    "600 MB of addresses": (0, f"ulimit -v 600000; {_RUN}"),
    "--out is a link to itself": (2, f"ln -s out out; {_RUN}"),
    "--out is a FIFO": (2, f"mkfifo out; {_RUN}"),
    "signal STOP and CONT": (0, f"{_RUN} & p=$!; sleep 1; kill -STOP $p; sleep 1; kill -CONT $p; wait $p"),
    "a folder of the user's in TMPDIR": (
        0,
        "mkdir -p t/advisor-report; touch t/advisor-report/{{a,advisor.lock}}; export TMPDIR=$PWD/t; "
        f"{_RUN} && [ -f t/advisor-report/a ]",
    ),
}
"""A sound workload, profiled by a shell: exit code and line."""
_SAYING: dict[str, tuple[int, str, str]] = {
    "--out is in use": (2, f"mkdir out; exec 9<out; flock 9; {_RUN}", "in use"),
    "12 open files": (4, f"ulimit -n 12; {_RUN}", "open files"),
    "100 MB of addresses": (4, f"ulimit -v 100000; {_RUN}", "ulimit -v"),
    "a clock that runs backwards": (
        4,
        "mkdir s; echo 'import time; real = time.perf_counter; time.perf_counter = lambda: -real()' "
        f"> s/sitecustomize.py; PYTHONPATH=s:$PYTHONPATH {_RUN}",
        "runs backwards",
    ),
}
"""The same, and what is said."""
_VARIABLES: dict[str, Mapping[str, str]] = {
    "surroundings: an unknown locale": {"LC_ALL": "xx_YY.none"},
    "surroundings: ASCII": {"LC_ALL": "C", "PYTHONUTF8": "0"},
    "surroundings: one column": {"COLUMNS": "1"},
    "surroundings: no number": {"COLUMNS": "x"},
    "around: HOME is empty": {"HOME": ""},
    "around: HOME is a pattern": {"HOME": "/root/(.*[", "USER": "(.*["},
    "around: PATH is empty": {"PATH": ""},
    "around: asserts are off": {"PYTHONOPTIMIZE": "2"},
    "around: absent encodings are errors": {"PYTHONWARNINGS": "error", "PYTHONWARNDEFAULTENCODING": "1"},
    "around: ASCII streams": {"PYTHONIOENCODING": "ascii"},
    "around: colours are forced": {"FORCE_COLOR": "", "CLICOLOR_FORCE": "", "TERM": "dumb"},
    "around: the summary is full": {"GITHUB_STEP_SUMMARY": "/dev/full"},
    "around: TMPDIR is a file": {"TMPDIR": "w.py"},
    "around: TMPDIR is /proc": {"TMPDIR": "/proc"},
    "around: COLUMNS is huge": {"COLUMNS": "9" * 30, "LINES": "-1"},
    "Python inspects": {"PYTHONINSPECT": "1", "PYTHONHASHSEED": "0"},
    "a completion of somebody else": {"_ADVISOR_COMPLETE": "complete_bash", "PYTHONHASHSEED": "0"},
}
"""What a profile does not mind."""


def surroundings() -> Iterator[Case]:
    """Full disks, no home, odd variables, limits, folders that are gone or in use."""
    for name, (code, shell) in _PROFILED.items():
        yield Case(name, (), code, FILES, shell=shell)
    for name, (code, shell, said) in _SAYING.items():
        yield Case(name, (), code, FILES, (said,), shell=shell)
    for name, variables in _VARIABLES.items():
        yield Case(name, ("profile", "w.py", *SHORT), 0, FILES, variables=variables)
    for name, make in (("a FIFO", os.mkfifo), ("a folder", Path.mkdir)):
        summary = {"GITHUB_STEP_SUMMARY": "summary"}
        files = {**FILES, "summary": make}
        yield Case(f"summary: {name}", ("profile", "w.py", *SHORT), 0, files, variables=summary)
    gone = workload(produce="import shutil; shutil.rmtree('out', ignore_errors=True)")
    yield Case("--out is removed by the workload", ("profile", "w.py", *SHORT), 0, {"w.py": gone})
    odd = ("profile", "w.py", *SHORT[:-1], "o\x1b[2J\n::error::x")
    yield Case("--out with control characters", odd, 0, FILES)
    shell, said = "mkdir d; cp w.py d; cd d; rm -r ../d; {advisor} profile w.py --no-gpu", "working directory"
    never = ("disk full", "so far")
    yield Case("the working directory is gone", (), 5, FILES, (said,), never, shell=shell)
    twice = f"{_RUN} & p=$!; sleep 1.5; {_RUN}; s=$?; wait $p && exit $s"
    slow = {"w.py": workload(produce="time.sleep(0.05)")}
    yield Case("two runs into one --out", (), 2, slow, ("in use",), shell=twice)
    for command in (
        "profile w.py --no-gpu --target h100-sxm --out out",
        "report p.json --out out",
        "predict p.json --target h200 --out out",
        "compare p.json p.json --out out",
        "history d --out out",
    ):
        # Python itself would leave compiled modules cut.
        limit = "mkdir -p d/a; cp p.json d/a/profile.json; export PYTHONDONTWRITEBYTECODE=1; ulimit -f 1"
        shell = f"{limit}; {{advisor}} {command}"
        yield Case(f"no space: {command[:12]}", (), 5, {**FILES, **SAVED}, shell=shell)


_REDIRECTED = {"stdout full": ">/dev/full", "stdout closed": ">&-", "all closed": "<&- >&- 2>&-"}


def streams() -> Iterator[Case]:
    """Commands with streams that are closed or full: never exit code 1."""
    for command in (
        *("strategies", "rules", "doctor", "devices", "report p.json", "compare p.json p.json"),
        *("--help", "--version", "trace --help"),
    ):
        for name, redirected in _REDIRECTED.items():
            yield Case(f"{command}: {name}", (), 5, SAVED, shell=f"{{advisor}} {command} {redirected}")
    for name, code, line in (
        ("a wrong option: stderr full", 2, "report p.json --no-such 2>/dev/full"),
        ("a wrong option: stderr closed", 2, "report p.json --no-such 2>&-"),
        ("report: stdin closed and a wrong option", 2, "report --bad >&- 2>&- <&-"),
        ("report: a missing file and no stderr", 5, "report nothing.json 2>&-"),
        ("compare: both full", 5, "compare p.json p.json --fail-if slower=5% --anyway >/dev/full 2>&1"),
        ("output: a full device", 5, "report p.json --out - --format md > /dev/full"),
        (
            "output: the reader went away",
            0,
            "report p.json --out - --format html | true; exit ${{PIPESTATUS[0]}}",
        ),
    ):
        yield Case(name, (), code, SAVED, shell=f"{{advisor}} {line}")
    # The next file that is opened would have the number of stderr.
    shell, never = "{advisor} report p.json --out o 2>&- >/dev/null", ("wrote o/",)
    yield Case("report: no stderr", (), 0, SAVED, never_shown=never, shell=shell)


def signals() -> Iterator[Case]:
    """Signals to the command, and those that it inherits."""
    for name, code in {"INT": 130, "TERM": 130, "HUP": 130, "USR1": 138, "XCPU": 152}.items():
        shell = f"{_RUN} --max-seconds 60 & p=$!; sleep 2; kill -{name} $p; wait $p"
        if name in ("INT", "HUP"):  # under nohup, and in a shell's background, these are ignored
            shell = f"{_WITH_SIGNALS} 'set -m; {shell}'"
        yield Case(f"signal {name}", (), code, _SLOW, shell=shell)
    kill = f"{_RUN} --max-seconds 60 & p=$!; sleep 3; kill -KILL $p; wait $p; c=$?; sleep 2; exit $c"
    yield Case("signal KILL", (), 137, _SLOW, shell=kill)
    for name, what in {
        "SIGCHLD is ignored": "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        "SIGTERM is blocked": "signal.pthread_sigmask(signal.SIG_BLOCK, [15, 2, 1, 17])",
        "SIGPIPE is ignored": "signal.signal(signal.SIGPIPE, signal.SIG_IGN)",
        "SIGINT is ignored": "signal.signal(signal.SIGINT, signal.SIG_IGN)",
        "SIGALRM comes": "signal.alarm(100)",
    }.items():
        yield Case(f"inherited: {name}", (), 0, FILES, shell=_INHERITED.replace("{what}", what))
    kill = "for i in 1 2 3 4 5 6; do sleep 0.$RANDOM; pkill -9 -P $(pgrep -P $p) 2>/dev/null; done"
    ended = "wait $p; c=$?; [ $c = 4 ] || [ $c = 3 ] && c=0; exit $c"
    slow = {"w.py": workload(produce="time.sleep(0.02)")}
    shell = f"{_RUN} & p=$!; sleep 1; {kill}; {ended}"
    yield Case("workers killed at any moment", (), 0, slow, shell=shell)


def names() -> Iterator[Case]:
    """Odd names of files, and commands as long as the system lets them be."""
    ascii_only = "LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0"
    short = " ".join(SHORT[:-1])
    for name, file, code, set_ in (
        ("not ASCII where it is LANG=C", "wörk é.py", 0, "LC_ALL=C LANG=C"),
        ("not ASCII where Python takes nothing else", "wörk.py", 2, ascii_only),
        ("not UTF-8", "w\\xff.py", 2, ""),
        ("two lines", "w\\n.py", 0, ""),
        ("an option", "-w.py", 0, ""),
        ("markup", "<img src=x onerror=alert(1)>.py", 0, ""),
    ):
        shell = f"cp -- w.py ./$'{file}'; {set_} {{advisor}} profile {short} $'o{file}' -- $'{file}'"
        yield Case(f"name: {name}", (), code, FILES, never_shown=("<img src=x",), shell=shell)
    yield Case("name: 5,000 characters", ("profile", "x" * 5000, *SHORT), 5, FILES)
    yield Case("name: --out of 300 characters", ("profile", "w.py", *SHORT[:-1], "o" * 300), 2, FILES)
    for name, more, code in (
        ("a value of 100,000 digits", ("--set", "n=" + "1" * 100_000), 2),
        ("20,000 unknown parameters", ("--set", "x=1") * 20_000, 2),
        ("3,000 times the same target", ("--target", "h100-sxm") * 3_000, 0),
    ):
        yield Case(f"arguments: {name}", ("profile", "w.py", *SHORT, *more), code, FILES)


def histories() -> Iterator[Case]:
    """Folders of profiles with what is none in them."""
    good = "mkdir -p d/{{a,b,c,e,f}}; cp p.json d/a/profile.json; "
    odd = (
        "echo x > d/b/profile.json; mkfifo d/c/profile.json; ln -s x d/e/profile.json; mkdir d/f/profile.json"
    )
    for name, made in (("one of several is sound", odd), ("links that go round", "ln -s . d/d")):
        yield Case(f"history: {name}", (), 0, SAVED, shell=f"{good}{made}; {{advisor}} history d --out out")
