"""Of the matrix: hostile git repositories, a git that hangs, and comparisons that are interrupted."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.case import COMMAND, FILES, Case, workload

_WHO = "git -c user.name=a -c user.email=a@b"
_REPOSITORY = (
    "export PATH=$PWD/bin:$PATH; mkdir bin; git init -q -b main work; mv w.py work; cd work; "
    f"echo '# one' >> w.py; git add -A; {_WHO} commit -qm one; "
    f"echo '# two' >> w.py; {_WHO} commit -qam two; "
    "printf '#!/bin/sh\\ntouch %s/ran\\ncat\\n' $PWD > ../program; chmod +x ../program; p=$PWD/../program; "
)
"""Two commits, and a program that leaves `ran`."""
_CHECK = "; c=$?; test -e ran && exit 99; test -e .git/worktrees && exit 98; exit $c"
_COMPARE = "compare --run w.py --against HEAD~1 --no-gpu --max-seconds 60 -q --out ../out"
_FILTER = (
    "echo '* filter=evil' > .git/info/attributes; "
    "for k in clean smudge process; do git config filter.evil.$k $p; done; touch -d 2001-01-01 w.py; "
)
_PROMISOR = (
    "b=$(git rev-parse HEAD~1:w.py); rm -f .git/objects/${{b:0:2}}/${{b:2}}; "
    "git config extensions.partialClone o; git config core.repositoryFormatVersion 1; "
    "git config remote.o.promisor true; "
    'git config remote.o.url "ext::$p"; git config protocol.ext.allow always; '
)
_INTERRUPTED = (
    '{python} -c "import signal, os, sys; signal.signal(2, signal.default_int_handler); '
    "os.execvp('bash', ['bash', '-c', sys.argv[1]])\" "
)
_HANGS = "printf '#!/bin/sh\\nsleep 300 & sleep 300\\n' > ../bin/git; chmod +x ../bin/git; hash -r; "
_GARBAGE = "printf '#!/bin/sh\\nhead -c 3000 /dev/urandom\\n' > ../bin/git; chmod +x ../bin/git; hash -r; "


def repositories() -> Iterator[Case]:
    """Nothing of a repository's configuration is run, and nothing is left in the repository."""
    # Which settings and files of a repository could run a program: tests/test_git.py.
    begin = f"{_REPOSITORY}{_FILTER}"
    yield Case("git: a filter, profile", (), 0, FILES, shell=f"{begin}{{advisor}} {COMMAND}{_CHECK}")
    shell = f"{begin}{{advisor}} {_COMPARE} --fail-if slower=900%{_CHECK}"  # soon answered
    yield Case("git: a filter, compare", (), 0, FILES, shell=shell)
    missing = f"{_REPOSITORY}{_PROMISOR}{{advisor}} {_COMPARE}{_CHECK}"
    yield Case("git: a file is on a promisor remote", (), 5, FILES, ("git archive",), shell=missing)
    for name, make, code in (("hangs", _HANGS, 5), ("tells garbage", _GARBAGE, 2)):
        begin = f"{_REPOSITORY}{make}"
        yield Case(f"git: it {name}, profile", (), 0, FILES, shell=f"{begin}{{advisor}} {COMMAND}{_CHECK}")
        yield Case(
            f"git: it {name}, compare", (), code, FILES, shell=f"{begin}{{advisor}} {_COMPARE}{_CHECK}"
        )
    against = (
        f"{_REPOSITORY}{{advisor}} {_COMPARE} --against $(head -c 100000 /dev/zero | tr '\\0' x){_CHECK}"
    )
    yield Case("git: a long revision", (), 2, FILES, ("git knows no revision",), ("x" * 3000,), shell=against)
    yield from _interrupted()


def _interrupted() -> Iterator[Case]:
    slow = {"w.py": workload(produce="time.sleep(0.01)")}
    run = f"{{advisor}} {_COMPARE} & j=$!; "
    for after in (1.5, 4, 8):
        for times in (1, 2):
            again = "kill -INT $j; sleep 0.05; " * times
            inner = f"set -m; {_REPOSITORY}{run}sleep {after}; {again}wait $j{_CHECK}"
            yield Case(
                f"compare --run: Ctrl-C after {after} s, {times} times",
                (),
                130,
                slow,
                ("nothing was compared",) if after > 2 else (),  # Python may still be starting
                shell=_INTERRUPTED + "'" + inner.replace("'", "'\\''") + "'",
            )
    inner = f"set -m; {_REPOSITORY}{_HANGS}{run}sleep 2; kill -INT $j; wait $j{_CHECK}"
    hangs = _INTERRUPTED + "'" + inner.replace("'", "'\\''") + "'"
    yield Case("compare --run: Ctrl-C with a git that hangs", (), 130, slow, shell=hangs)
    killed = f"{_REPOSITORY}{run}sleep 4; kill -KILL $j; wait $j; c=$?; sleep 2; (exit $c){_CHECK}"
    yield Case("compare --run: KILL", (), 137, slow, shell=killed)
