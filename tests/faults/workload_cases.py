"""Of the matrix: workloads that raise, die, hang, print, lie, and harm what is around them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tests.faults.case import COMMAND, SECRET, SHORT, Case, profiled, workload

Lines = dict[str, str]
"""A line of the user's by the name of its case."""
_CONTROLS = "\\x1b[31mred \\x1b]0;title\\x07 \\x00 \\x9b2J \\u202e evil"
_COMMANDS = "::error file=x::planted\\n##[error]planted\\n  ::set-output name=a::b"
_ODD = "class Odd(BaseException):\n    def __str__(self): raise RuntimeError('none')\n    __repr__ = __str__"
_DAEMON = "if not os.fork():\n    os.setsid()\n    if not os.fork(): time.sleep(600)\n    os._exit(0)"
_GARBAGE = (
    "for fd in range(3, 30):\n            try: os.write(fd, b'garbage')\n            except OSError: pass"
)
_CAUSES = (
    "e = None\n        for i in range(5000):\n"
    "            n = KeyError(i); n.__cause__ = e; e = n\n        raise e"
)
_POOL = "import multiprocessing as m; p = m.get_context('fork').Pool(1); p.map(abs, [1]); p.terminate()"

_SAYS = {
    "an OSError of bytes": "OSError: cannot open caf?.raw; buffers: a float32 (64,)",
    "leaves by _exit": "the process exited with code 0 without a result",
    "dies of SIGKILL": "killed by SIGKILL; usually the system ran out of memory",
    "dies of SIGSEGV": "the process was killed by SIGSEGV",
    "asks for 1 EiB": "1.00 EiB",
}
_IN_A_STAGE: dict[int, Lines] = {
    3: {
        "an OSError of bytes": "raise OSError('cannot open caf\\udce9.raw')",
        "an exception of 100 MB, late": "if frame == 3: raise ValueError('x' * 100_000_000)",
        "control characters in its text": f'raise ValueError("{_CONTROLS}")',
        "workflow commands in its text": f'raise ValueError("{_COMMANDS}")',
        "a group of exceptions": "raise BaseException(ValueError('a'), KeyError('b'))",
        "dies of SIGINT": "os.kill(os.getpid(), signal.SIGINT)",
        "raises KeyboardInterrupt": "raise KeyboardInterrupt",
        "raises SystemExit(None)": "raise SystemExit",
        "raises an exception with a hostile name": (
            "raise type('E\\x1b]0;x\\n::error::x', (Exception,), {})('no')"
        ),
        "raises notes that are no list": "e = ValueError('x'); e.__notes__ = 5; raise e",
        "raises a note of 50 MB": "e = ValueError('x'); e.__notes__ = ['y' * 50_000_000]; raise e",
        "raises a cycle of causes": "a, b = KeyError(), KeyError(); a.__cause__, b.__cause__ = b, a; raise a",
        "raises 5,000 causes": _CAUSES,
        "raises an UnicodeDecodeError of 50 MB": "(b'x' * 50_000_000 + b'\\xff').decode()",
        "stops in the debugger": "breakpoint()",
    },
    4: {
        "leaves by _exit": "os._exit(0)",
        "dies of SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
        "dies of SIGSEGV": "os.kill(os.getpid(), signal.SIGSEGV)",
        "dies of a real-time signal": "os.kill(os.getpid(), signal.SIGRTMIN + 5)",
        "asks for 1 EiB": "np.empty(2**60, np.uint8)",
        "sets an alarm": "signal.setitimer(signal.ITIMER_REAL, 0.01); time.sleep(1)",
        "limits its memory": (
            "import resource; resource.setrlimit(resource.RLIMIT_AS, (10**6, 10**6)); np.zeros(10**7)"
        ),
        "limits its CPU time": (
            "import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\n        while True: pass"
        ),
        "reads address 0": "import ctypes; ctypes.string_at(0)",
        "kills its process group": "os.kill(0, 9)",
    },
    0: {
        "closes all descriptors": "os.closerange(0, 1000)",
        "writes into every descriptor": _GARBAGE,
        "forks in a frame": "os.fork() if frame == 1 else 0",
        "starts a pool in a frame": _POOL,
        "changes the directory in produce": "os.chdir('/')",
    },
}
"""By exit code, a line of the stage that produces."""
_AT_IMPORT: Lines = {
    "hangs in an exit handler": "import atexit; atexit.register(time.sleep, 600)",
    "leaves a thread": "threading.Thread(target=time.sleep, args=(600,)).start()",
    "leaves a process in a session of its own": "subprocess.Popen(['sleep', '600'], start_new_session=True)",
    "leaves a daemon": _DAEMON,
    "ignores SIGTERM and SIGINT": "signal.signal(15, signal.SIG_IGN)",
    "a clock that runs backwards": "_c = iter(range(10**9, 0, -1)); time.perf_counter = lambda: next(_c)",
    "changes the directory in top": "os.chdir('/')",
    "replaces sys.modules": "sys.modules.pop('json', None)",
    "sets a tracing function": "sys.settrace(lambda *a: None)",
    "turns warnings into errors": "import warnings; warnings.simplefilter('error')",
    "changes print": "import builtins; builtins.print = None",
    "changes os.write": "os.write = None",
    "changes json.dumps": "import json; json.dumps = json.loads = None",
    "changes sys.stderr": "sys.stderr = None",
    "changes os.environ": "os.environ.clear()",
    "changes the umask": "os.umask(0o777)",
    "changes the session": "os.setsid() if os.getpid() != os.getsid(0) else 0",
    "prints in a thread without end": (
        "threading.Thread(target=lambda: [print('y' * 9999) for _ in iter(int, 1)], daemon=True).start()"
    ),
    "warns of 50 MB": "import warnings; warnings.warn('x' * 50_000_000)",
    "blocks all signals": "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))",
    "dumps tracebacks": "import faulthandler; faulthandler.dump_traceback_later(0.1, repeat=True)",
    "removes numpy": "sys.modules.pop('numpy')",
    "removes all finders": "sys.meta_path.clear(); sys.path_hooks.clear()",
    "leaves in an exit handler": "import atexit; atexit.register(os._exit, 3)",
}
"""What a workload does to its interpreter that the run survives."""


def workloads() -> Iterator[Case]:
    """Workloads that raise, die, hang, print, lie or leave things behind."""
    for code, lines in _IN_A_STAGE.items():
        for name, line in lines.items():
            yield profiled(name, code, produce=line, says=_SAYS.get(name, ""))
    for name, line in _AT_IMPORT.items():
        yield profiled(name, 0, top=line)
    for stage in ("produce", "add", "use"):
        yield profiled(f"{stage} raises", 3, says="ValueError: no", **{stage: "raise ValueError('no')"})
    yield profiled("raises late", 3, says="late", produce="if frame > 2: raise ValueError('late')")
    says: tuple[str, ...] = (
        "stage 'produce' (w.py:11), frame 5: ValueError: late; buffers: a float32 (64,)",
        "Traceback",
    )
    yield profiled("raises in frame 5", 3, says=says, produce="if frame == 5: raise ValueError('late')")
    error = "stage 'add' (w.py:14), frame 0: ValueError: could not broadcast"
    says = (error, "; buffers: a float32 (64,), b float32 (64,)")
    yield profiled("adds an array of another length", 3, says=says, add="b[...] = np.ones(65)")
    yield profiled("str() of its exception raises", 3, top=_ODD, produce="raise Odd")
    yield profiled("str() of its exception raises late", 3, top=_ODD, produce="if frame == 2: raise Odd")
    yield profiled("exits", 3, says="exit", produce="sys.exit(7)")
    yield profiled("recurses without end", 3, inside="def f(): return f()", produce="f()")
    yield profiled("prints 5 MB", 0, use="print('x' * 50_000) if not os.path.exists('no') else 0")
    yield profiled("prints bytes that are no text", 0, use="os.write(1, bytes(range(256)))")
    yield profiled("closes stdout", 0, use="os.close(1) if os.path.exists('/proc/self/fd/1') else None")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))"
    yield profiled("limits the size of files", 4, top=limit, says="incomplete")
    limit, says = limit.replace("100", "200_000"), "results cannot be written"
    yield profiled("limits the size of arrays in files", 5, "--set", "n=100000", top=limit, says=says)
    yield profiled("hangs", 3, "--timeout", "3", produce="time.sleep(600)")
    fill = (
        "_held = []\nwhile True:\n    try: _held.append(os.open('/dev/null', 0))\n    except OSError: break"
    )
    yield profiled("uses up the descriptors", 3, top=fill, says="open")
    yield profiled("a parameter of 100 MB", 0, parameters=", who: str = 'z' * 100_000_000")
    markup = "<script>alert(1)</script> | a | `b` ](javascript:1)"
    yield profiled("markup in its docstring", 0, doc=markup, never_shown=("<script>alert(1)",))
    yield profiled("an unknown buffer", 3, buffers='{"a": Buffer(n, np.float32)}', says="b")
    yield profiled("a buffer of 1 EiB", 3, buffers='{k: Buffer(2**60, np.float32) for k in "ab"}')
    for name, text in (
        ("no Python", "def ]["),
        ("a null byte", "a = 1\0"),
        ("a missing module", "import no_such_module_at_all\nfrom advisor import workload"),
    ):
        yield Case(f"file: {name}", ("profile", "w.py", *SHORT), 3, {"w.py": text})
    yield Case("file: missing", ("profile", "none.py", *SHORT), 5)
    yield Case("file: a folder", ("profile", "w.py", *SHORT), 3, {"w.py": Path.mkdir})
    yield from _sizes()
    shadow = {"w.py": workload(), "importlib.py": "raise SystemExit('shadow')", "json.py": "1/0"}
    installed = "{python} -c 'import sys; sys.path.pop(0); from advisor.cli.app import main; main()'"
    shell = f"{installed} profile w.py {' '.join(SHORT)}"
    yield Case("file: modules of the same names beside it", (), 0, shadow, shell=shell)


def _sizes() -> Iterator[Case]:
    """More of everything than a person writes; within the limits it takes no longer than other workloads."""
    for stages, code in ((100, 0), (1500, 3)):
        frame = f"[host(produce)] + {stages - 1} * [device(add)]"
        many = f"return Workload(buffers={{k: Buffer(n, np.float32) for k in 'ab'}}, frame={frame})"
        yield profiled(f"{stages} stages", code, says=("500",) * (code > 0), inside=many)
    for buffers, code in ((1200, 0), (5000, 3)):
        names = [f"b{number}" for number in range(buffers)]
        given = ", ".join(f"{name}: Out" for name in names)
        writes = "; ".join(f"{name}.fill(1)" for name in names)
        inside = (
            f"def produce({given}): {writes}\n    def add(xp, {given.replace('Out', 'InOut')}): pass\n"
            f"    return Workload(buffers={{k: Buffer(n, np.float32) for k in {names}}}, "
            "frame=[host(produce), device(add)])"
        )
        top = "from advisor import InOut"
        longer = ("--max-seconds", "120")  # a busy machine needs 20 s to check them
        yield profiled(f"{buffers} buffers", code, *longer, says="2000" * (code > 0), top=top, inside=inside)
    parameters = "".join(f", p{number}: int = {number}" for number in range(1000))
    yield profiled("1,000 parameters", 0, parameters=parameters)
    more = "\n".join(f"@workload\ndef w{number}(): pass" for number in range(1000))
    many = {"w.py": f"{workload()}\n{more}"}
    said = ("1001 workloads", "at most 100", "w.py::work")
    yield Case("workload: 1,000 workloads", ("profile", "w.py", *SHORT), 3, many, said, ("::w900",))
    yield profiled("10 MB of source", 3, says="2 MB", top="x = 1\n" * 1_700_000)
    deep = {"sums": "1" + "+1" * 100_000, "signs": "-" * 90_000 + "1", "names": "os" + ".path" * 50_000}
    deep["parentheses"] = "(" * 150 + "1" + ")" * 150
    for name, text in deep.items():
        code = 0 if name == "parentheses" else 3
        yield profiled(f"an expression of many {name}", code, top=f"DEEP = {text}")
        yield profiled(f"a default of many {name}", code, parameters=f", deep: int = {text}")


def processes() -> Iterator[Case]:
    """Workloads that harm the process they run in, its parents, and what it writes."""
    # Once: who adopts it would be the next.
    once = "os.kill(os.getppid(), 9); signal.pause()"
    yield profiled("kills its parent", 4, says="killed by SIGKILL", produce=once)
    yield profiled("stops itself", 3, "--timeout", "3", produce="os.kill(os.getpid(), signal.SIGSTOP)")
    ours = (
        "import glob, shutil, tempfile\n"
        "        for p in glob.glob(tempfile.gettempdir() + '/advisor-*'): shutil.rmtree(p, True)"
    )
    shell = f"mkdir tmp; TMPDIR=$PWD/tmp {{advisor}} {COMMAND}"
    yield Case("workload: removes our folders", (), 3, {"w.py": workload(produce=ours)}, shell=shell)
    recursion = {"inside": "def f(): return f()", "produce": "f()", "top": "sys.setrecursionlimit(10**9)"}
    yield profiled("recursion without a limit", 3, "--timeout", "5", **recursion)
    hanging = workload(inside="def check(b: In): time.sleep(600)")
    hanging = hanging.replace("host(use)])", "host(use)], check=check)")
    told = ("it was in check (w.py:", "--max-seconds")
    yield Case("workload: a check that hangs", ("profile", "w.py", *SHORT), 3, {"w.py": hanging}, told)
    endless = workload(buffers='{k: Buffer(n, np.float32) for k in "abc"}')
    endless = endless.replace("device(add)", "repeat([device(add), host(tell)], until='c', at_most=10**6)")
    endless = endless.replace("import Buffer", "import Buffer, repeat")
    endless = endless.replace("    def use(", "    def tell(c: Out): c[0] = 0\n    def use(")
    told = ("max-seconds",)
    yield Case("workload: a loop without end", ("profile", "w.py", *SHORT), 3, {"w.py": endless}, told)
    for stage, line, buffer in (("add", "a[0] = 1", "a"), ("use", "b[0] = 1", "b")):
        says = (f"stage '{stage}' (w.py:", f", frame 0: it may not write '{buffer}'", "InOut")
        yield profiled(f"{stage} writes what it reads", 3, says=says, **{stage: line})
    yield profiled("reads stdin", 3, says="EOF", produce="input()")
    logs = "os.write(2, os.environ['MY_API_KEY'].encode()); os.abort()"
    telling = {"variables": {"MY_API_KEY": SECRET}, "never": (SECRET,)}
    yield profiled("logs a secret and dies", 4, produce=logs, **telling)
    named = "produce.__name__ = '<script>alert(1)</script>\\x1b[2J\\n::error::x'"
    yield profiled("a stage with a hostile name", 0, inside=named)
    for name in ("builtins.open", "builtins.len", "inspect.signature", "numpy.zeros"):
        module = name.partition(".")[0]
        yield profiled(f"replaces {name}", 3, says=f"replaced {name}", top=f"import {module}; {name} = None")
    # What cannot be described, and what changes what its process is.
    says = "has 65 dimensions"
    yield profiled("a buffer of 65 dimensions", 3, says=says, buffers='{"a": Buffer((1,) * 65, np.uint8)}')
    top = "class D(dict):\n    def items(self): raise ValueError('mine')"
    given = "D({k: Buffer(n, np.float32) for k in 'ab'})"
    yield profiled("buffers with items that raises", 3, says="mine", top=top, buffers=given)
    yield profiled("a default of 10**5000", 3, says="16,610 bits", parameters=", x: int = 10**5000")
    if not os.getuid():
        says = "changed the user or the root directory"
        for name, line in {"user": "os.setuid(65534)", "root directory": "os.chroot('/tmp')"}.items():
            yield profiled(f"changes the {name}", 3, says=says, top=line)
            yield profiled(f"changes the {name} in a stage", 4, says=says, produce=line)
