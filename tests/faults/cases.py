"""The matrix: files, a command, and what must hold of its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROFILE = ROOT / "reports" / "no-gpu" / "vector_add" / "profile.json"
ONE = ("--target", "h100-sxm")
SHORT = ("--no-gpu", *ONE, "--max-seconds", "4", "--rounds", "1", "--quiet", "--out", "out")
SECRET = "hunter2-correct-horse-7"
Content = str | bytes | Callable[[Path], object]
"""A text, bytes, or what makes the file: a FIFO, a link."""


@dataclass(frozen=True)
class Case:
    """One command in a folder with these files."""

    name: str
    command: tuple[str, ...]
    code: int
    files: Mapping[str, Content] = field(default_factory=dict)
    says: tuple[str, ...] = ()
    """Parts that stderr or stdout has to have."""
    never: tuple[str, ...] = ()
    """Parts that no output and no file that is written may have."""
    never_shown: tuple[str, ...] = ()
    """Parts that no page may have."""
    variables: Mapping[str, str] = field(default_factory=dict)
    shell: str = ""
    """The command is run by a shell: `{advisor}` stands for it. For redirections and limits."""


def workload(**parts: str) -> str:
    """A small workload with a line of the user's in it: top, doc, parameters, inside, produce, add, use."""
    given = {
        "top": "",
        "doc": "Adds one.",
        "parameters": "",
        "inside": "pass",
        "produce": "pass",
        "add": "pass",
        "use": "pass",
        "buffers": '{k: Buffer(n, np.float32) for k in "ab"}',
        **parts,
    }
    return _WORKLOAD.format(**given)


_WORKLOAD = '''\
import os, signal, subprocess, sys, threading, time
import numpy as np
from advisor import Buffer, In, Out, Workload, device, host, workload
{top}

@workload
def work(n: int = 64{parameters}):
    """{doc}"""
    def produce(a: Out, frame: int):
        a.fill(frame)
        {produce}
    def add(xp, a: In, b: Out):
        xp.add(a, 1, out=b)
        {add}
    def use(b: In):
        b.sum()
        {use}
    {inside}
    return Workload(buffers={buffers}, frame=[host(produce), device(add), host(use)])
'''
_CONTROLS = "\\x1b[31mred \\x1b]0;title\\x07 \\x00 \\x9b2J \\u202e evil"


def profiled(name: str, code: int, *more: str, says: str | tuple[str, ...] = (), **parts: Any) -> Case:
    """`advisor profile` on a workload with that fault; `never` and `variables` as of a case."""
    of_case = {key: parts.pop(key) for key in ("never", "never_shown", "variables", "shell") if key in parts}
    said = (says,) if isinstance(says, str) else says
    files = {"w.py": workload(**parts)}
    return Case(f"workload: {name}", ("profile", "w.py", *SHORT, *more), code, files, said, **of_case)


def workloads() -> Iterator[Case]:
    """Workloads that raise, die, hang, print, lie or leave things behind."""
    for stage in ("produce", "add", "use"):
        yield profiled(f"{stage} raises", 3, says="ValueError: no", **{stage: "raise ValueError('no')"})
    yield profiled("raises late", 3, says="late", produce="if frame > 2: raise ValueError('late')")
    yield profiled("raises with two lines", 3, says="first", produce="raise ValueError('first\\nsecond')")
    huge = "raise ValueError('x' * 100_000_000)"
    yield profiled("an exception of 100 MB", 3, produce=huge)
    yield profiled("an exception of 100 MB, late", 3, produce="if frame == 3: " + huge)
    odd = "class Odd({}):\n    def __str__(self): raise RuntimeError('none')\n    __repr__ = __str__"
    for base in ("Exception", "BaseException"):
        yield profiled(f"str() of its {base} raises", 3, top=odd.format(base), produce="raise Odd")
        late = "if frame == 2: raise Odd"
        yield profiled(f"str() of its {base} raises late", 3, top=odd.format(base), produce=late)
    yield profiled("surrogates in its text", 3, produce="raise OSError('caf\\udce9')")
    yield profiled("control characters in its text", 3, produce=f'raise ValueError("{_CONTROLS}")')
    command = "::error file=x::planted\\n##[error]planted\\n  ::set-output name=a::b"
    yield profiled("workflow commands in its text", 3, produce=f'raise ValueError("{command}")')
    yield profiled("a group of exceptions", 3, produce="raise BaseException(ValueError('a'), KeyError('b'))")
    yield profiled("exits", 3, says="exit", produce="sys.exit(7)")
    yield profiled("exits at import", 3, top="sys.exit(0)")
    yield profiled("leaves by _exit", 4, produce="os._exit(0)")
    yield profiled("leaves by _exit(1)", 4, produce="os._exit(1)")
    for name in ("SIGKILL", "SIGSEGV", "SIGTERM", "SIGABRT", "SIGINT", "SIGHUP", "SIGUSR1"):
        yield profiled(
            f"dies of {name}", 3 if name == "SIGINT" else 4, produce=f"os.kill(os.getpid(), signal.{name})"
        )
    yield profiled("dies of a real-time signal", 4, produce="os.kill(os.getpid(), signal.SIGRTMIN + 5)")
    yield profiled("recurses without end", 3, inside="def f(): return f()", produce="f()")
    yield profiled("asks for 1 EiB", 4, produce="np.empty(2**60, np.uint8)")
    yield profiled("prints 5 MB", 0, use="print('x' * 50_000) if not os.path.exists('no') else 0")
    yield profiled("prints bytes that are no text", 0, use="os.write(1, bytes(range(256)))")
    yield profiled("closes stdout", 0, use="os.close(1) if os.path.exists('/proc/self/fd/1') else None")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))"
    yield profiled("limits the size of files", 4, top=limit, says="incomplete")
    yield profiled("hangs", 3, "--timeout", "3", produce="time.sleep(600)")
    yield profiled("hangs in an exit handler", 0, top="import atexit; atexit.register(time.sleep, 600)")
    yield profiled("leaves a thread", 0, top="threading.Thread(target=time.sleep, args=(600,)).start()")
    child = "subprocess.Popen(['sleep', '600'], start_new_session=True)"
    yield profiled("leaves a process in a session of its own", 0, top=child)
    yield profiled("leaves a process", 0, top="subprocess.Popen(['sleep', '600'])")
    twice = "if not os.fork():\n    os.setsid()\n    if not os.fork(): time.sleep(600)\n    os._exit(0)"
    yield profiled("leaves a daemon", 0, top=twice)
    yield profiled("ignores SIGTERM and SIGINT", 0, top="signal.signal(15, signal.SIG_IGN)")
    yield profiled("patches the clock", 0, top="time.perf_counter = time.monotonic = lambda: 0.0")
    yield profiled(
        "a clock that runs backwards",
        0,
        top="_c = iter(range(10**9, 0, -1)); time.perf_counter = lambda: next(_c)",
    )
    fill = (
        "_held = []\nwhile True:\n    try: _held.append(os.open('/dev/null', 0))\n    except OSError: break"
    )
    yield profiled("uses up the descriptors", 3, top=fill, says="open")
    for where in ("top", "inside", "produce", "use"):
        yield profiled(f"changes the directory in {where}", 0, **{where: "os.chdir('/')"})
    yield profiled("deletes its own folder", 0, top="import tempfile", use="pass")
    gone = "import glob, shutil\nfor p in glob.glob('/tmp/advisor-*/**/log', recursive=True): pass"
    yield profiled("looks at our folders", 0, top=gone)
    yield profiled("replaces sys.stdout", 0, top="sys.stdout = None")
    yield profiled("replaces sys.modules", 0, top="sys.modules.pop('json', None)")
    yield profiled("sets a tracing function", 0, top="sys.settrace(lambda *a: None)")
    yield profiled("turns warnings into errors", 0, top="import warnings; warnings.simplefilter('error')")
    yield profiled("a parameter of 100 MB", 0, parameters=", who: str = 'z' * 100_000_000")
    yield profiled("a docstring of 10 MB", 0, top="D = 'x' * 10_000_000", inside="work.function.__doc__ = D")
    yield profiled(
        "markup in its docstring",
        0,
        doc="<script>alert(1)</script> | a | `b` ](javascript:1)",
        never_shown=("<script>alert(1)",),
    )
    yield profiled("an unknown buffer", 3, add="pass", buffers='{"a": Buffer(n, np.float32)}', says="b")
    yield profiled("a buffer of no elements", 3, buffers='{k: Buffer(0, np.float32) for k in "ab"}')
    yield profiled("a buffer of 1 EiB", 3, buffers='{k: Buffer(2**60, np.float32) for k in "ab"}')
    yield profiled("a dtype that is none", 3, buffers='{k: Buffer(n, "f33") for k in "ab"}')
    yield profiled("objects in a buffer", 3, buffers='{k: Buffer(n, object) for k in "ab"}')
    for name, text in (
        ("no Python", "def ]["),
        ("empty", ""),
        ("a null byte", "a = 1\0"),
        ("not UTF-8", b"\xff\xfe\x00a"),
        ("no workload that can be called", "import advisor\nworkload = 3"),
        ("raises at import", "1 / 0"),
        ("a missing module", "import no_such_module_at_all\nfrom advisor import workload"),
    ):
        yield Case(f"file: {name}", ("profile", "w.py", *SHORT), 3, {"w.py": text})
    yield Case("file: missing", ("profile", "none.py", *SHORT), 5)
    yield Case("file: a folder", ("profile", "w.py", *SHORT), 5, {"w.py": Path.mkdir})
    shadow = {"w.py": workload(), "importlib.py": "raise SystemExit('shadow')", "json.py": "1/0"}
    installed = "{python} -c 'import sys; sys.path.pop(0); from advisor.cli.app import main; main()'"
    yield Case(
        "file: modules of the same names beside it",
        (),
        0,
        shadow,
        shell=f"{installed} profile w.py {' '.join(SHORT)}",
    )


def options() -> Iterator[Case]:
    """Options that cannot be right: usage errors, exit code 2, whatever they say."""
    wrong: tuple[tuple[str, ...], ...] = (
        ("--no-such",),
        ("--rounds", "0"),
        ("--rounds", "many"),
        ("--max-seconds", "-1"),
        ("--max-seconds", "nan"),
        ("--max-seconds", "inf"),
        ("--timeout", "0"),
        ("--strategy", "pined"),
        ("--target", "orin-nanoo"),
        ("--objective", "fast"),
        ("--memory-budget", "lots"),
        ("--memory-budget", "-1GiB"),
        ("--set", "n"),
        ("--set", "=3"),
        ("--rule", "x"),
        ("--rule", "zero-copy-reread.none=3"),
        ("--ignore", "no-rule"),
        ("--format", "pdf"),
        ("--format", ""),
        ("--sweep", "n"),
        ("--sweep", "n=1"),
        ("--sweep", "n=8..1"),
        ("--sweep", "n=1,2", "--sweep", "m=1,2"),
        ("--indifference", "200%"),
        ("--trace", "gdb"),
        ("--seed", "x"),
        ("--gpu", "-1"),
    )
    for given in wrong:
        command = ("profile", "w.py", "--no-gpu", "--out", "out", *given)
        yield Case(f"option: {' '.join(given)[:40]}", command, 2, {"w.py": workload()})
    for given in (("--set", "n=x"), ("--set", "n=-4"), ("--set", "none=4"), ("--set", f"n={'9' * 5000}")):
        yield Case(
            f"value: {given[1][:20]}",
            ("profile", "w.py", *SHORT, *given),
            3 if "-4" in given[1] else 2,
            {"w.py": workload()},
        )
    for command in (
        ("no-such-command",),
        ("profile",),
        ("report",),
        ("compare", "a.json"),
        ("rules", "none"),
        ("devices", "show", "none"),
        ("new",),
    ):
        yield Case(f"command: {' '.join(command)}", command, 2)


def saved(change: Callable[[dict[str, Any]], object]) -> str:
    """A profile with a change."""
    profile = json.loads(PROFILE.read_text(encoding="utf-8"))
    change(profile)
    return json.dumps(profile)


_MISNAMED: dict[str, Callable[[dict[str, Any]], object]] = {
    "advice.0.strategy": lambda p: p["advice"][0].update(strategy="ghost"),
    "advice.0.device": lambda p: p["advice"][0].update(device="ghost"),
    "advice.0.gain.over": lambda p: p["advice"][0]["gain"].update(over="ghost"),
    "predictions.0.recommendation.tied_with": lambda p: p["predictions"][0]["recommendation"].update(
        tied_with=["ghost"]
    ),
    "predictions.0.recommendation.excluded": lambda p: p["predictions"][0]["recommendation"].update(
        excluded={"ghost": "1 GiB"}
    ),
    "predictions.0.results.0.terms": lambda p: p["predictions"][0]["results"][0]["terms"].update(
        {"host:ghost": 0.1}
    ),
    "traffic.waits": lambda p: p["traffic"].update(
        waits=[{"stage": "ghost", "line": "w.py:1", "call": "get", "write": "nothing", "count": 1.0}]
    ),
    "trace.missing": lambda p: p["trace"].update(missing=[{"strategy": "ghost", "reason": "none"}]),
}
"""By the key that names what is nowhere in the profile."""


def profiles() -> Iterator[Case]:
    """Saved profiles that are damaged, contradict themselves, or are none."""
    text = PROFILE.read_text(encoding="utf-8")
    files: dict[str, Content] = {
        "empty": "",
        "a number": "3",
        "a list": "[]",
        "no format": "{}",
        "null": "null",
        "cut in half": text[: len(text) // 2],
        "the last brace is missing": text.rstrip()[:-1],
        "not UTF-8": b"\xff" + text.encode(),
        "null bytes": b"\0" * 1000,
        "deeply nested": "[" * 100_000,
        "nested objects": '{"a":' * 50_000,
        "NaN": text.replace('"rounds":', '"rounds": NaN, "x":', 1),
        "format 99": saved(lambda p: p.update(format=99)),
        "format true": saved(lambda p: p.update(format=True)),
        "an unknown key": saved(lambda p: p.update(more=1)),
        "no results": saved(lambda p: p.pop("results")),
        "a negative time": saved(lambda p: p["results"][0].update(median_seconds=-1.0)),
        "a time as text": saved(lambda p: p["results"][0].update(median_seconds="1")),
        "an infinite time": saved(lambda p: p["results"][0].update(median_seconds=1e999)),
        "a year a frame": saved(lambda p: p["results"][0].update(median_seconds=1e10)),
        "a strategy twice": saved(lambda p: p["results"].append(p["results"][0])),
        "a huge integer": text.replace('"format": 2', '"format": ' + "9" * 6000, 1),
        "12 MB of unknown keys": json.dumps({"format": 2, **{f"k{i}": i for i in range(700_000)}}),
        "gzip that ends early": b"\x1f\x8b\x08\x00abc",
        "an unknown buffer": saved(lambda p: p["workload"]["stages"][0].update(access={"ghost": "in"})),
        "no stages": saved(lambda p: p["workload"].update(stages=[])),
        "an endless FIFO": lambda path: __import__("os").mkfifo(path),
        "a folder": Path.mkdir,
    }
    for name, content in files.items():
        yield Case(f"profile: {name}", ("report", "p.json", "--out", "out"), 5, {"p.json": content})
    for key, misname in _MISNAMED.items():
        files = {"p.json": saved(misname)}
        yield Case(
            f"profile: nothing has the name in {key}", ("report", "p.json"), 5, files, (f"{key}: ", "'ghost'")
        )
    yield Case("profile: missing", ("report", "none.json", "--out", "out"), 5)
    yield Case("compare: damaged", ("compare", "p.json", "p.json"), 5, {"p.json": text[:900]})
    yield Case(
        "compare: another file", ("compare", "p.json", "w.py"), 5, {"p.json": text, "w.py": workload()}
    )
    told: dict[str, Any] = {
        "notes": [f"token={SECRET}"],
        "command": f"advisor profile --set password={SECRET}",
    }
    telling = {
        "p.json": saved(lambda p: (p.update(told), p["workload"]["parameters"].update(api_key=SECRET)))
    }
    for command in (("report", "p.json", "--format", "html,md,json"), ("compare", "p.json", "p.json")):
        yield Case(
            f"profile: secrets of another's, {command[0]}",
            (*command, "--out", "out"),
            0,
            telling,
            never=(SECRET,),
        )
    markup = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    hostile = saved(lambda p: p.update(notes=[markup, "\x1b[2J\x00", "::error::planted"], command=markup))
    yield Case(
        "profile: markup, controls and commands in texts",
        ("report", "p.json", "--out", "out"),
        0,
        {"p.json": hostile},
        never_shown=("<img src=x", "<script>alert"),
    )


def configurations() -> Iterator[Case]:
    """advisor.toml, device files and traces."""
    for name, text in {
        "no TOML": "a = [",
        "an unknown key": "no_such = 1",
        "a wrong type": "rounds = 'x'",
        "not UTF-8": b"\xff\xfe",
        "a huge number": f"rounds = {'9' * 6000}",
        "deeply nested": "a = " + "[" * 20_000,
        "a dotted key of 50,000 parts": ".".join("a" * 50_000) + " = 1",
        "a table of the wrong kind": "rounds = {}",
    }.items():
        code = 2 if name in ("an unknown key", "a wrong type", "a table of the wrong kind") else 5
        yield Case(
            f"advisor.toml: {name}",
            ("profile", "w.py", *SHORT),
            code,
            {"w.py": workload(), "advisor.toml": text},
        )
    for name, text in {
        "empty": "",
        "no TOML": "[[[",
        "an unknown key": "name = 'x'\nno_such = 1",
        "binary": bytes(range(256)),
        "a wrong class": "name = 'x'\nmemory_class = 'none'",
    }.items():
        command = ("predict", str(PROFILE), "--target", "d.toml", "--out", "out")
        yield Case(f"device file: {name}", command, 5, {"d.toml": text})
    for name, text in {
        "empty": "",
        "no database": "hello" * 100,
        "a header alone": b"SQLite format 3\0" + b"\0" * 84,
        "binary": bytes(range(256)) * 100,
    }.items():
        yield Case(f"trace: {name}", ("trace", "t.sqlite"), 5, {"t.sqlite": text})
    yield Case("trace: missing", ("trace", "none.sqlite"), 5)
    yield Case("trace: another file", ("trace", "t.nsys-rep"), 5, {"t.nsys-rep": "no report"})


def secrets() -> Iterator[Case]:
    """What the program masks it masks everywhere."""
    said = {
        "an option": ("--set", f"password={SECRET}"),
        "an option, glued": (f"--set=api_key={SECRET}",),
    }
    for name, more in said.items():
        key = "password" if "password" in more[-1] else "api_key"
        yield profiled(
            f"tells {name}",
            3,
            *more,
            parameters=f', {key}: str = ""',
            never=(SECRET,),
            produce=f"raise ValueError('with ' + {key})",
        )
        yield profiled(
            f"prints {name}", 0, *more, parameters=f', {key}: str = ""', never=(SECRET,), use=f"print({key})"
        )
    variable = {"MY_SERVICE_TOKEN": SECRET}
    yield profiled(
        "tells a variable",
        3,
        variables=variable,
        never=(SECRET,),
        produce="raise ValueError(os.environ['MY_SERVICE_TOKEN'])",
    )
    yield profiled("a variable in its docstring", 0, variables=variable, never=(SECRET,), doc=SECRET)
    lines = {"SERVICE_SECRET": f"first-line-{SECRET}\nsecond-line-{SECRET}\n"}
    yield profiled(
        "tells a line of a variable",
        3,
        variables=lines,
        never=(SECRET,),
        produce="raise KeyError(os.environ['SERVICE_SECRET'].splitlines()[1])",
    )
    numbers = ("--set", "token=83749261")
    yield profiled("a number as a token", 0, *numbers, parameters=", token: int = 0", never=("83749261",))
    cut = "os.write(1, ('y' * 190 + os.environ['MY_SERVICE_TOKEN']).encode()); os._exit(3)"
    yield profiled("cut in a secret", 4, variables=variable, never=(SECRET[:6],), produce=cut)
    for name, line in {
        "a note": f"e = ValueError('x'); e.__notes__ = ['token={SECRET}']; raise e",
        "a cause": f"raise ValueError('x') from KeyError('password={SECRET}')",
        "a dictionary": f"raise KeyError({{'login': {{'api_key': '{SECRET}'}}}})",
        "the lines of a call": f"dict(a=1,\n            token='{SECRET}',\n            z=1 / 0)",
    }.items():
        yield profiled(f"tells a secret in {name}", 3, produce=line, never=(SECRET,))
    forms = [first + second for first, second in FORMS.values()]
    yield profiled("tells all forms of tokens", 3, produce=f"raise ValueError({forms!r})", never=tuple(forms))
    swept = ("profile", "w.py", *SHORT, "--sweep", f"token={SECRET},other-{SECRET}")
    yield Case(
        "sweep: over a secret", swept, 0, {"w.py": workload(parameters=', token: str = ""')}, never=(SECRET,)
    )

    failing = workload(parameters=', token: str = ""', produce="raise ValueError(token)")
    yield Case("sweep: over a secret that fails", swept, 3, {"w.py": failing}, never=(SECRET,))


FORMS = {
    "a token of GitHub": ("ghp_", "abcdefghijklmnopqrstuvwxyz0123456789"),
    "a token of GitLab": ("glpat-", "abcdefghij0123456789"),
    "a key of Amazon": ("AKIA", "ABCDEFGHIJKLMNOP"),
    "a key of Google": ("AIza", "SyA0123456789abcdefghijklmnopqrstuv"),
    "a key of Stripe": ("sk_live_", "0123456789abcdefghijklmn"),
    "a token of Slack": ("xoxb-", "123456789012-abcdefghijkl"),
    "a token of Hugging Face": ("hf_", "abcdefghijklmnopqrstuvwxyz01234567"),
    "a JSON web token": ("eyJhbGciOiJIUzI1NiJ9.", "eyJzdWIiOiIxIn0.abcDEF012345"),
    "a header": ("Bearer ", "abc123def456ghi789"),
    "credentials in a URL": ("https://me:pa55word@", "host"),
    "a token in a URL": ("https://host/x?token=", "abc123def456"),
    "an assignment": ("password=", "s3cr3t-value"),
    "JSON": ('"api_key": "', "s3cr3t-value"),
}
"""The beginning and the rest apart, so that nobody's scanner takes this file for a leak."""


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
    yield Case("--out is a file", ("profile", "w.py", *SHORT[:-1], "w.py"), 2, files)
    yield Case("--out cannot be made", ("profile", "w.py", *SHORT[:-1], "/proc/none/out"), 2, files)
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


def all_cases() -> list[Case]:
    """The whole matrix."""
    groups = (workloads, options, profiles, configurations, secrets, surroundings)
    return [case for group in groups for case in group()]
