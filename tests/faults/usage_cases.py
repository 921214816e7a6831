"""Of the matrix: options and commands that cannot be right."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.case import FILES, SHORT, Case

_WRONG = (
    *("--no-such", "--max-seconds -1", "--max-seconds inf", "--max-seconds 1e99", "--timeout 1e99"),
    *(f"--memory-budget {'9' * 40_000}", f"--memory-budget {'9' * 400}GiB", f"--rounds {'9' * 5000}"),
    *(f"--gpu {'9' * 5000}", f"--numa {'x' * 100_000}", f"--strategy {'x' * 100_000}"),
    *(f"--sweep n=1..{'9' * 100_000}", "--target orin-nanoo", "--objective fast", "--memory-budget lots"),
    *("--memory-budget -1GiB", "--set =3", "--rule x", "--rule zero-copy-reread.none=3", "--ignore no-rule"),
    *("--format ", "--sweep n", "--sweep n=1", "--sweep n=8..1", "--sweep n=1,2 --sweep m=1,2"),
    *("--indifference 200%", "--trace gdb", "--seed x"),
)


def options() -> Iterator[Case]:
    """Options that cannot be right, beside those of test_wrong_input.py: exit code 2, whatever they say."""
    for given in _WRONG:
        command = ("profile", "w.py", "--no-gpu", "--out", "out", *given.split(" "))
        yield Case(f"option: {given[:40]}", command, 2, FILES)
    for value, code in (("n=-4", 3), ("none=4", 2), (f"n={'9' * 5000}", 2)):
        yield Case(f"value: {value[:20]}", ("profile", "w.py", *SHORT, "--set", value), code, FILES)
    for line in ("no-such-command", "profile", "report", "devices show none", "new"):
        yield Case(f"command: {line}", tuple(line.split()), 2)
    address = ("fleet", "w.py", "--scheduler", "tcp://" + "x" * 100_000)
    yield Case("a long scheduler address", address, 4, FILES, ("the scheduler tcp://",))
