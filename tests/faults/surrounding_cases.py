"""Of the matrix: streams, signals, folders, variables, and runs side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.faults.case import COMMAND, FILES, PROFILE, SAVED, SHORT, Case, Content, workload


def surroundings() -> Iterator[Case]:
    """Full disks, closed streams, no home, readers that go away."""
    files: Mapping[str, Content] = {"w.py": workload()}
    profile = f"profile w.py {' '.join(SHORT)}"
    text: Mapping[str, Content] = {"p.json": PROFILE.read_text(encoding="utf-8")}
    yield Case(
        "output: a full device", (), 5, text, shell="{advisor} report p.json --out - --format md > /dev/full"
    )
    yield Case("output: closed", (), 5, files, shell=f"{{advisor}} {profile} >&-")
    yield Case("output: stderr closed", (), 0, files, shell=f"{{advisor}} {profile} 2>&-")
    yield Case("output: a full stderr", (), 0, files, shell=f"{{advisor}} {profile} 2>/dev/full")
    reader = "{advisor} report p.json --out - --format html | true; exit ${{PIPESTATUS[0]}}"
    yield Case("output: the reader went away", (), 0, text, shell=reader)
    yield Case("no home", (), 0, files, shell=f"env -u HOME {{advisor}} {profile}")
    yield Case("a home that is not there", (), 0, files, shell=f"HOME=/nonexistent/x {{advisor}} {profile}")
    yield Case("TMPDIR that is not there", (), 0, files, shell=f"TMPDIR=/nonexistent/x {{advisor}} {profile}")
    yield Case(
        "--out is in use",
        (),
        2,
        files,
        ("in use",),
        shell=f"mkdir out; exec 9<out; flock 9; {{advisor}} {profile}",
    )
    yield Case(
        "the working directory is gone",
        (),
        5,
        files,
        ("working directory",),
        ("disk full", "so far"),
        shell="mkdir d; cp w.py d; cd d; rm -r ../d; {advisor} profile w.py --no-gpu",
    )
    gone = workload(produce="import shutil; shutil.rmtree('out', ignore_errors=True)")
    yield Case("--out is removed by the workload", ("profile", "w.py", *SHORT), 0, {"w.py": gone})
    fifo = {**files, "summary": lambda path: __import__("os").mkfifo(path)}
    yield Case(
        "summary: a FIFO", ("profile", "w.py", *SHORT), 0, fifo, variables={"GITHUB_STEP_SUMMARY": "summary"}
    )
    yield Case(
        "summary: a folder",
        ("profile", "w.py", *SHORT),
        0,
        {**files, "summary": Path.mkdir},
        variables={"GITHUB_STEP_SUMMARY": "summary"},
    )
    yield Case("few open files", (), 0, files, shell=f"ulimit -n 64; {{advisor}} {profile}")
    for name, variables in {
        "an unknown locale": {"LC_ALL": "xx_YY.none"},
        "ASCII": {"LC_ALL": "C", "PYTHONUTF8": "0"},
        "80 columns": {"COLUMNS": "80"},
        "one column": {"COLUMNS": "1"},
        "no number": {"COLUMNS": "x"},
    }.items():
        yield Case(f"surroundings: {name}", ("profile", "w.py", *SHORT), 0, files, variables=variables)


_WITH_SIGNALS = (
    '{python} -c "import signal, os, sys; signal.signal(2, signal.default_int_handler); signal.signal(1, 0); '
    "os.execvp('bash', ['bash', '-c', sys.argv[1]])\""
)


def streams() -> Iterator[Case]:
    """Commands with streams that are closed or full: never exit code 1."""
    for command in (
        "strategies",
        "rules",
        "doctor",
        "devices",
        "report p.json",
        "compare p.json p.json",
        "--help",
        "--version",
        "trace --help",
    ):
        for name, redirected in (("stdout full", ">/dev/full"), ("stdout closed", ">&-")):
            yield Case(f"{command}: {name}", (), 5, SAVED, shell=f"{{advisor}} {command} {redirected}")
        yield Case(f"{command}: all closed", (), 5, SAVED, shell=f"{{advisor}} {command} <&- >&- 2>&-")
    yield Case(
        "a wrong option: stderr full", (), 2, SAVED, shell="{advisor} report p.json --no-such 2>/dev/full"
    )
    yield Case("a wrong option: stderr closed", (), 2, SAVED, shell="{advisor} report p.json --no-such 2>&-")
    yield Case("profile: both full", (), 5, FILES, shell=f"{{advisor}} {COMMAND} >/dev/full 2>&1")
    yield Case(
        "profile: a JSON onto a full device",
        (),
        5,
        FILES,
        shell=f"{{advisor}} {COMMAND} --out - --format json >/dev/full",
    )
    yield Case("profile: stdin closed", (), 0, FILES, shell=f"{{advisor}} {COMMAND} <&-")
    yield Case("profile: no descriptor at all", (), 5, FILES, shell=f"{{advisor}} {COMMAND} <&- >&- 2>&-")


def signals() -> Iterator[Case]:
    """Signals to the command, and those that it inherits."""
    slow = {"w.py": workload(produce="time.sleep(0.2)")}
    for name in ("INT", "TERM", "HUP"):
        for after in ("2",):
            shell = f"{{advisor}} {COMMAND} --max-seconds 60 & p=$!; sleep {after}; kill -{name} $p; wait $p"
            if name != "TERM":  # under nohup, and in a shell's background, these are ignored
                shell = f"{_WITH_SIGNALS} 'set -m; {shell}'"
            yield Case(f"signal {name} after {after} s", (), 130, slow, shell=shell)
    yield Case(
        "signal KILL",
        (),
        137,
        slow,
        shell=f"{{advisor}} {COMMAND} --max-seconds 60 & p=$!; sleep 3; kill -KILL $p; wait $p; c=$?; "
        "sleep 2; exit $c",
    )
    yield Case(
        "signal STOP and CONT",
        (),
        0,
        FILES,
        shell=f"{{advisor}} {COMMAND} & p=$!; sleep 1; kill -STOP $p; sleep 1; kill -CONT $p; wait $p",
    )
    inherit = (
        '{python} -c "import signal, os, sys; {what}; '
        "os.execvp(sys.executable, [sys.executable, '-m', 'advisor', *sys.argv[1:]])\" " + COMMAND
    )
    for name, what in {
        "SIGCHLD is ignored": "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        "SIGTERM is blocked": "signal.pthread_sigmask(signal.SIG_BLOCK, [15, 2, 1, 17])",
        "SIGPIPE is ignored": "signal.signal(signal.SIGPIPE, signal.SIG_IGN)",
        "SIGINT is ignored": "signal.signal(signal.SIGINT, signal.SIG_IGN)",
        "SIGALRM comes": "signal.alarm(100)",
    }.items():
        yield Case(f"inherited: {name}", (), 0, FILES, shell=inherit.replace("{what}", what))


def together() -> Iterator[Case]:
    """Two runs, and folders for results that are none; files in them: tests/test_outputs.py."""
    yield Case(
        "two runs into one --out",
        (),
        2,
        {"w.py": workload(produce="time.sleep(0.05)")},
        ("in use",),
        shell=f"{{advisor}} {COMMAND} & p=$!; sleep 1.5; {{advisor}} {COMMAND}; s=$?; wait $p && exit $s",
    )
    for name, make in {"a link to itself": "ln -s out out", "a FIFO": "mkfifo out"}.items():
        yield Case(f"--out is {name}", (), 2, FILES, shell=f"{make}; {{advisor}} {COMMAND}")
    foreign = "mkdir -p t/advisor-report; touch t/advisor-report/{{a,advisor.lock}}; export TMPDIR=$PWD/t"
    shell = f"{foreign}; {{advisor}} {COMMAND} && [ -f t/advisor-report/a ]"
    yield Case("a folder of the user's in TMPDIR", (), 0, FILES, shell=shell)
    yield Case(
        "--out with control characters", ("profile", "w.py", *SHORT[:-1], "o\x1b[2J\n::error::x"), 0, FILES
    )


def around() -> Iterator[Case]:
    """Variables, homes and temporary folders."""
    for name, variables, code in (
        ("HOME is empty", {"HOME": ""}, 0),
        ("HOME is a pattern", {"HOME": "/root/(.*[", "USER": "(.*["}, 0),
        ("PATH is empty", {"PATH": ""}, 0),
        ("asserts are off", {"PYTHONOPTIMIZE": "2"}, 0),
        ("absent encodings are errors", {"PYTHONWARNINGS": "error", "PYTHONWARNDEFAULTENCODING": "1"}, 0),
        ("ASCII streams", {"PYTHONIOENCODING": "ascii"}, 0),
        ("colours are forced", {"FORCE_COLOR": "", "CLICOLOR_FORCE": "", "TERM": "dumb"}, 0),
        ("the summary is full", {"GITHUB_STEP_SUMMARY": "/dev/full"}, 0),
        ("the summary is nowhere", {"GITHUB_STEP_SUMMARY": "/none/x"}, 0),
        ("TMPDIR is a file", {"TMPDIR": "w.py"}, 0),
        ("TMPDIR is /proc", {"TMPDIR": "/proc"}, 0),
        ("COLUMNS is huge", {"COLUMNS": "9" * 30, "LINES": "-1"}, 0),
    ):
        yield Case(f"around: {name}", ("profile", "w.py", *SHORT), code, FILES, variables=variables)
    yield Case(
        "around: TMPDIR of odd characters",
        (),
        0,
        FILES,
        shell=f'mkdir "t \'$"; TMPDIR="$PWD/t \'$" {{advisor}} {COMMAND}',
    )


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


def limits() -> Iterator[Case]:
    """Limits on files, memory and time, and workers that are killed at any moment."""
    both = {**FILES, **SAVED}
    for command in (
        "profile w.py --no-gpu --target h100-sxm --out out",
        "report p.json --out out",
        "predict p.json --target h200 --out out",
        "compare p.json p.json --out out",
        "history d --out out",
    ):
        # Python itself would leave compiled modules cut.
        limit = "mkdir -p d/a; cp p.json d/a/profile.json; export PYTHONDONTWRITEBYTECODE=1; ulimit -f 1"
        yield Case(f"no space: {command[:12]}", (), 5, both, shell=f"{limit}; {{advisor}} {command}")
    yield Case("12 open files", (), 4, FILES, ("open files",), shell=f"ulimit -n 12; {{advisor}} {COMMAND}")
    for name, variables in (
        ("Python inspects", {"PYTHONINSPECT": "1"}),
        ("a completion of somebody else", {"_ADVISOR_COMPLETE": "complete_bash"}),
    ):
        yield Case(
            name, ("profile", "w.py", *SHORT), 0, FILES, variables={**variables, "PYTHONHASHSEED": "0"}
        )
    back = "import time; real = time.perf_counter; time.perf_counter = lambda: -real()"
    shell = f"mkdir s; echo '{back}' > s/sitecustomize.py; PYTHONPATH=s:$PYTHONPATH {{advisor}} {COMMAND}"
    yield Case("a clock that runs backwards", (), 4, FILES, ("runs backwards",), shell=shell)
    yield Case("600 MB of addresses", (), 0, FILES, shell=f"ulimit -v 600000; {{advisor}} {COMMAND}")
    shell = f"ulimit -v 100000; {{advisor}} {COMMAND}"
    yield Case("100 MB of addresses", (), 4, FILES, ("ulimit -v",), shell=shell)
    slow = {"w.py": workload(produce="time.sleep(0.02)")}
    for name, code in (("USR1", 138), ("XCPU", 152)):
        shell = f"{{advisor}} {COMMAND} & p=$!; sleep 2; kill -{name} $p; wait $p"
        yield Case(f"signal {name}", (), code, slow, shell=shell)
    kill = "for i in 1 2 3 4 5 6; do sleep 0.$RANDOM; pkill -9 -P $(pgrep -P $p) 2>/dev/null; done"
    ended = "wait $p; c=$?; [ $c = 4 ] || [ $c = 3 ] && c=0; exit $c"
    shell = f"{{advisor}} {COMMAND} & p=$!; sleep 1; {kill}; {ended}"
    yield Case("workers killed at any moment", (), 0, slow, shell=shell)
    yield Case("versions: no repository", ("compare", "--run", "w.py", "--no-gpu", "--out", "out"), 2, FILES)


def histories() -> Iterator[Case]:
    """Folders of profiles with what is none in them."""
    good = "mkdir -p d/{{a,b,c,e,f}}; cp p.json d/a/profile.json; "
    odd = (
        "echo x > d/b/profile.json; mkfifo d/c/profile.json; ln -s x d/e/profile.json; mkdir d/f/profile.json"
    )
    history = "{advisor} history d --out out"
    for name, made, code in (
        ("one of several is sound", good + odd, 0),
        ("links that go round", good + "ln -s . d/d", 0),
        ("no profile", "mkdir d; cp p.json d/a.json", 5),
        ("no folder", "true", 5),
        ("a file", "cp p.json d", 5),
    ):
        yield Case(f"history: {name}", (), code, SAVED, shell=f"{made}; {history}")
    yield Case("history: stdout full", (), 5, SAVED, shell=f"{good}{history} >/dev/full")
