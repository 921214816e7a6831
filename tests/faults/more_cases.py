"""More of the matrix: processes, streams, signals, surroundings and files that are no files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.faults.cases import PROFILE, SECRET, SHORT, Case, Content, profiled, workload
from tests.faults.secret_cases import more_secrets

_PROFILE = f"profile w.py {' '.join(SHORT)}"
_FILES: Mapping[str, Content] = {"w.py": workload()}
_WITH_CTRL_C = (
    '{python} -c "import signal, os, sys; signal.signal(2, signal.default_int_handler); '
    "os.execvp('bash', ['bash', '-c', sys.argv[1]])\""
)
_SAVED: Mapping[str, Content] = {"p.json": PROFILE.read_text(encoding="utf-8")}


def processes() -> Iterator[Case]:
    """Workloads that harm the process they run in, its parents, and what it writes."""
    yield profiled("kills its parents", -9, produce="os.kill(os.getppid(), 9)")
    yield profiled("stops itself", 3, "--timeout", "3", produce="os.kill(os.getpid(), signal.SIGSTOP)")
    yield profiled("closes all descriptors", 0, produce="os.closerange(0, 1000)")
    garbage = (
        "for fd in range(3, 30):\n            try: os.write(fd, b'garbage')\n            except OSError: pass"
    )
    yield profiled("writes into every descriptor", 0, produce=garbage)
    ours = (
        "import glob, shutil, tempfile\n"
        "        for p in glob.glob(tempfile.gettempdir() + '/advisor-*'): shutil.rmtree(p, True)"
    )
    yield Case(
        "workload: removes our folders",
        (),
        3,
        {"w.py": workload(produce=ours)},
        shell=f"mkdir tmp; TMPDIR=$PWD/tmp {{advisor}} {_PROFILE}",
    )
    yield profiled("forks in a frame", 0, produce="os.fork() if frame == 1 else 0")
    for name, line in {
        "KeyboardInterrupt": "raise KeyboardInterrupt",
        "SystemExit(None)": "raise SystemExit",
        "GeneratorExit": "raise GeneratorExit",
        "StopIteration": "raise StopIteration",
        "an exception with a hostile name": "raise type('E\\x1b]0;x\\n::error::x', (Exception,), {})('no')",
        "notes that are no list": "e = ValueError('x'); e.__notes__ = 5; raise e",
        "a note of 50 MB": "e = ValueError('x'); e.__notes__ = ['y' * 50_000_000]; raise e",
        "a cycle of causes": "a, b = KeyError(1), KeyError(2); a.__cause__ = b; b.__cause__ = a; raise a",
        "5,000 causes": "e = None\n        for i in range(5000):\n"
        "            n = KeyError(i); n.__cause__ = e; e = n\n        raise e",
        "a SyntaxError of a long line": "compile('x = ' + '(' * 1_000_000, 'f' * 100_000, 'exec')",
        "a string": "raise 'text'",
        "an UnicodeDecodeError of 50 MB": "(b'x' * 50_000_000 + b'\\xff').decode()",
    }.items():
        yield profiled(f"raises {name}", 3, produce=line)
    yield profiled(
        "recursion without a limit",
        3,
        "--timeout",
        "5",
        top="sys.setrecursionlimit(10**9)",
        inside="def f(): return f()",
        produce="f()",
    )
    for name, line in {
        "print": "import builtins; builtins.print = None",
        "os.write": "os.write = None",
        "json.dumps": "import json; json.dumps = json.loads = None",
        "sys.excepthook": "sys.excepthook = None",
        "sys.stderr": "sys.stderr = None",
        "os.environ": "os.environ.clear()",
        "sys.path": "sys.path.clear()",
        "numpy's errors": "np.seterr(all='raise')",
        "the umask": "os.umask(0o777)",
        "the session": "os.setsid() if os.getpid() != os.getsid(0) else 0",
        "the logging": "import logging; logging.disable(); logging.raiseExceptions = True",
        "the collector": "import gc; gc.disable(); gc.set_threshold(0)",
        "the locale": "import locale; locale.setlocale(locale.LC_ALL, 'C')",
    }.items():
        yield profiled(f"changes {name}", 0, top=line)
    endless = workload(buffers='{k: Buffer(n, np.float32) for k in "abc"}')
    endless = endless.replace("device(add)", "repeat([device(add), host(tell)], until='c', at_most=10**6)")
    endless = endless.replace("import Buffer", "import Buffer, repeat")
    endless = endless.replace("    def use(", "    def tell(c: Out): c[0] = 0\n    def use(")
    yield Case(
        "workload: a loop without end", ("profile", "w.py", *SHORT), 3, {"w.py": endless}, ("max-seconds",)
    )
    for stage, line, buffer in (("add", "a[0] = 1", "a"), ("use", "b[0] = 1", "b")):
        says = (f"stage '{stage}' may not write '{buffer}'", "InOut")
        yield profiled(f"{stage} writes what it reads", 3, says=says, **{stage: line})
    yield profiled("sets an alarm", 4, produce="signal.setitimer(signal.ITIMER_REAL, 0.01); time.sleep(1)")
    yield profiled(
        "limits its memory",
        4,
        produce="import resource; resource.setrlimit(resource.RLIMIT_AS, (10**6, 10**6)); np.zeros(10**7)",
    )
    yield profiled(
        "limits its CPU time",
        4,
        produce="import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\n        while True: pass",
    )
    yield profiled("reads stdin", 3, says="EOF", produce="input()")
    yield profiled(
        "prints in a thread without end",
        0,
        top="threading.Thread(target=lambda: [print('y' * 9999) for _ in iter(int, 1)], daemon=True).start()",
    )
    yield profiled(
        "prints 200 MB",
        0,
        use="sys.modules.setdefault('done', [os.write(1, b'x' * 50_000_000) for _ in range(4)])",
    )
    yield profiled("warns of 50 MB", 0, top="import warnings; warnings.warn('x' * 50_000_000)")
    yield profiled(
        "logs a secret and dies",
        4,
        variables={"MY_API_KEY": SECRET},
        never=(SECRET,),
        produce="os.write(2, os.environ['MY_API_KEY'].encode()); os.abort()",
    )
    name = "s" * 20_000
    yield profiled("a stage with a long name", 0, inside=f"produce.__name__ = '{name}'")
    yield profiled(
        "a stage with a hostile name",
        0,
        inside="produce.__name__ = '<script>alert(1)</script>\\x1b[2J\\n::error::x'",
    )
    yield profiled(
        "a summary of control characters", 0, inside='work.function.__doc__ = "\\x1b]0;x\\x07 \\u202e"'
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
            yield Case(f"{command}: {name}", (), 5, _SAVED, shell=f"{{advisor}} {command} {redirected}")
        yield Case(f"{command}: all closed", (), 5, _SAVED, shell=f"{{advisor}} {command} <&- >&- 2>&-")
    yield Case(
        "a wrong option: stderr full", (), 2, _SAVED, shell="{advisor} report p.json --no-such 2>/dev/full"
    )
    yield Case("a wrong option: stderr closed", (), 2, _SAVED, shell="{advisor} report p.json --no-such 2>&-")
    yield Case("profile: both full", (), 5, _FILES, shell=f"{{advisor}} {_PROFILE} >/dev/full 2>&1")
    yield Case(
        "profile: a JSON onto a full device",
        (),
        5,
        _FILES,
        shell=f"{{advisor}} {_PROFILE} --out - --format json >/dev/full",
    )
    yield Case("profile: stdin closed", (), 0, _FILES, shell=f"{{advisor}} {_PROFILE} <&-")
    yield Case("profile: no descriptor at all", (), 5, _FILES, shell=f"{{advisor}} {_PROFILE} <&- >&- 2>&-")


def signals() -> Iterator[Case]:
    """Signals to the command, and those that it inherits."""
    slow = {"w.py": workload(produce="time.sleep(0.2)")}
    for name in ("INT", "TERM", "HUP"):
        for after in ("2",):
            shell = f"{{advisor}} {_PROFILE} --max-seconds 60 & p=$!; sleep {after}; kill -{name} $p; wait $p"
            if name == "INT":  # a shell starts what runs in its background without Ctrl-C
                shell = f"{_WITH_CTRL_C} 'set -m; {shell}'"
            yield Case(f"signal {name} after {after} s", (), 130, slow, shell=shell)
    yield Case(
        "signal KILL",
        (),
        137,
        slow,
        shell=f"{{advisor}} {_PROFILE} --max-seconds 60 & p=$!; sleep 3; kill -KILL $p; wait $p; c=$?; "
        "sleep 2; exit $c",
    )
    yield Case(
        "signal STOP and CONT",
        (),
        0,
        _FILES,
        shell=f"{{advisor}} {_PROFILE} & p=$!; sleep 1; kill -STOP $p; sleep 1; kill -CONT $p; wait $p",
    )
    inherit = (
        '{python} -c "import signal, os, sys; {what}; '
        "os.execvp(sys.executable, [sys.executable, '-m', 'advisor', *sys.argv[1:]])\" " + _PROFILE
    )
    for name, what in {
        "SIGCHLD is ignored": "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        "SIGTERM is blocked": "signal.pthread_sigmask(signal.SIG_BLOCK, [15, 2, 1, 17])",
        "SIGPIPE is ignored": "signal.signal(signal.SIGPIPE, signal.SIG_IGN)",
        "SIGINT is ignored": "signal.signal(signal.SIGINT, signal.SIG_IGN)",
        "SIGALRM comes": "signal.alarm(100)",
    }.items():
        yield Case(f"inherited: {name}", (), 0, _FILES, shell=inherit.replace("{what}", what))


def together() -> Iterator[Case]:
    """Two runs, and folders for results that are none."""
    two = f"{{advisor}} {_PROFILE} & p=$!; sleep 1.5; {{advisor}} {_PROFILE}; s=$?; wait $p && exit $s"
    yield Case(
        "two runs into one --out",
        (),
        2,
        {"w.py": workload(produce="time.sleep(0.05)")},
        ("in use",),
        shell=two,
    )
    for name, make in {
        "a link to nothing": "ln -s none out",
        "a link to itself": "ln -s out out",
        "a FIFO": "mkfifo out",
    }.items():
        yield Case(f"--out is {name}", (), 2, _FILES, shell=f"{make}; {{advisor}} {_PROFILE}")
    for name, make, code in (
        ("report.html is a folder", "mkdir -p out/report.html", 5),
        ("profile.json is a folder", "mkdir -p out/profile.json/x", 5),
        ("profile.json is a link to the workload", "mkdir out; ln -s ../w.py out/profile.json", 0),
        ("profile.json is a FIFO", "mkdir out; mkfifo out/profile.json", 0),
        ("previous is a file", "mkdir out; touch out/previous", 0),
        ("previous is a link to /", "mkdir out; ln -s / out/previous", 0),
        ("profile.json is damaged", "mkdir out; echo x > out/profile.json", 0),
    ):
        yield Case(
            f"in --out: {name}",
            (),
            code,
            _FILES,
            shell=f"{make}; {{advisor}} {_PROFILE} && grep -q workload w.py",
        )
    for out in ("", "/dev/null", "/dev/full", "/proc/self", "/sys/none"):
        yield Case(f"--out {out!r}", ("profile", "w.py", *SHORT[:-1], out), 2, _FILES)
    yield Case(
        "--out with control characters", ("profile", "w.py", *SHORT[:-1], "o\x1b[2J\n::error::x"), 0, _FILES
    )


def around() -> Iterator[Case]:
    """Variables, homes and temporary folders."""
    for name, variables, code in (
        ("HOME is empty", {"HOME": ""}, 0),
        ("HOME is relative", {"HOME": "."}, 0),
        ("HOME is /", {"HOME": "/"}, 0),
        ("HOME is a pattern", {"HOME": "/root/(.*[", "USER": "(.*["}, 0),
        ("PATH is empty", {"PATH": ""}, 0),
        ("asserts are off", {"PYTHONOPTIMIZE": "2"}, 0),
        ("warnings are errors", {"PYTHONWARNINGS": "error"}, 0),
        ("development mode", {"PYTHONDEVMODE": "1"}, 0),
        ("ASCII streams", {"PYTHONIOENCODING": "ascii"}, 0),
        ("no bytecode", {"PYTHONDONTWRITEBYTECODE": "1"}, 0),
        ("colours are forced", {"FORCE_COLOR": "", "CLICOLOR_FORCE": "", "TERM": "dumb"}, 0),
        ("the summary is full", {"GITHUB_STEP_SUMMARY": "/dev/full"}, 0),
        ("the summary is nowhere", {"GITHUB_STEP_SUMMARY": "/none/x"}, 0),
        ("TMPDIR is a file", {"TMPDIR": "w.py"}, 0),
        ("TMPDIR is relative", {"TMPDIR": "."}, 0),
        ("TMPDIR is /proc", {"TMPDIR": "/proc"}, 0),
        ("COLUMNS is huge", {"COLUMNS": "9" * 30, "LINES": "-1"}, 0),
        ("threads", {"OMP_NUM_THREADS": "x", "OPENBLAS_NUM_THREADS": "0"}, 0),
        ("NUMA", {"CUDA_VISIBLE_DEVICES": "x,y", "NVIDIA_VISIBLE_DEVICES": "void"}, 0),
    ):
        yield Case(f"around: {name}", ("profile", "w.py", *SHORT), code, _FILES, variables=variables)
    yield Case(
        "around: TMPDIR of odd characters",
        (),
        0,
        _FILES,
        shell=f'mkdir "t \'$"; TMPDIR="$PWD/t \'$" {{advisor}} {_PROFILE}',
    )


def files() -> Iterator[Case]:
    """FIFOs, devices and links in the place of every file that is read."""
    made: dict[str, Content] = {
        "a FIFO": os.mkfifo,
        "a link to itself": lambda path: path.symlink_to(path),
        "/dev/zero": lambda path: path.symlink_to("/dev/zero"),
    }
    for name, make in made.items():
        yield Case(f"workload: {name}", ("profile", "w.py", *SHORT), 5, {"w.py": make})
        yield Case(f"profile: {name}", ("report", "p.json"), 5, {"p.json": make})
        yield Case(f"baseline: {name}", ("compare", "p.json", "q.json"), 5, {**_SAVED, "q.json": make})
        yield Case(f"advisor.toml: {name}", ("profile", "w.py", *SHORT), 0, {**_FILES, "advisor.toml": make})
        yield Case(
            f"device: {name}", ("predict", "p.json", "--target", "d.toml"), 5, {**_SAVED, "d.toml": make}
        )
        yield Case(f"export: {name}", ("trace", "t.sqlite"), 5, {"t.sqlite": make})
        yield Case(f"nsys report: {name}", ("trace", "t.nsys-rep"), 5, {"t.nsys-rep": make})
    gh200 = (Path(PROFILE).parents[3] / "advisor/devices/gh200.toml").read_text(encoding="utf-8")
    lines = gh200.splitlines()
    for name, text in {
        "a figure of 1e400": gh200.replace("= ", "= 1e400 # ", 3),
        "endless keys": "\n".join(f"k{i} = 1" for i in range(200_000)),
        "deep arrays": "name = " + "[" * 50_000,
        "a deep dotted key": ".".join("a" * 30_000) + " = 1",
        "a huge number": "name = " + "9" * 100_000,
        "a name of control characters": 'name = "\\u001b]0;x\\u0007\\n::error::x"',
        "a byte order mark": b"\xff\xfen\0a\0",
        "without its link": "\n".join(line for line in lines if "link" not in line),
        "secrets": f'token = "{SECRET}"\npassword = "{SECRET}"\n[[[',
    }.items():
        yield Case(
            f"device file: {name}",
            ("predict", "p.json", "--target", "d.toml", "--out", "out"),
            5,
            {**_SAVED, "d.toml": text},
            never=(SECRET,) if name == "secrets" else (),
        )
        yield Case(
            f"device file shown: {name}",
            ("devices", "show", "./d.toml"),
            5,
            {"d.toml": text},
            never=(SECRET,) if name == "secrets" else (),
        )


def more_cases() -> list[Case]:
    """All of these."""
    groups = (processes, streams, signals, together, around, files, more_secrets)
    return [case for group in groups for case in group()]
