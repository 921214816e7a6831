"""Of the matrix: options and commands that cannot be right."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.case import FILES, SHORT, Case, workload


def options() -> Iterator[Case]:
    """Options that cannot be right, beside those of test_wrong_input.py: exit code 2, whatever they say."""
    wrong: tuple[tuple[str, ...], ...] = (
        ("--no-such",),
        ("--max-seconds", "-1"),
        ("--max-seconds", "inf"),
        ("--max-seconds", "1e99"),
        ("--timeout", "1e99"),
        ("--memory-budget", "9" * 40_000),
        ("--memory-budget", "9" * 400 + "GiB"),
        ("--rounds", "9" * 5000),
        ("--gpu", "9" * 5000),
        ("--numa", "x" * 100_000),
        ("--strategy", "x" * 100_000),
        ("--sweep", f"n=1..{'9' * 100_000}"),
        ("--target", "orin-nanoo"),
        ("--objective", "fast"),
        ("--memory-budget", "lots"),
        ("--memory-budget", "-1GiB"),
        ("--set", "=3"),
        ("--rule", "x"),
        ("--rule", "zero-copy-reread.none=3"),
        ("--ignore", "no-rule"),
        ("--format", ""),
        ("--sweep", "n"),
        ("--sweep", "n=1"),
        ("--sweep", "n=8..1"),
        ("--sweep", "n=1,2", "--sweep", "m=1,2"),
        ("--indifference", "200%"),
        ("--trace", "gdb"),
        ("--seed", "x"),
    )
    for given in wrong:
        command = ("profile", "w.py", "--no-gpu", "--out", "out", *given)
        yield Case(f"option: {' '.join(given)[:40]}", command, 2, {"w.py": workload()})
    for given in (("--set", "n=-4"), ("--set", "none=4"), ("--set", f"n={'9' * 5000}")):
        yield Case(
            f"value: {given[1][:20]}",
            ("profile", "w.py", *SHORT, *given),
            3 if "-4" in given[1] else 2,
            {"w.py": workload()},
        )
    for command in (("no-such-command",), ("profile",), ("report",), ("devices", "show", "none"), ("new",)):
        yield Case(f"command: {' '.join(command)[:40]}", command, 2)
    address = ("fleet", "w.py", "--scheduler", "tcp://" + "x" * 100_000)
    yield Case("a long scheduler address", address, 4, FILES, ("the scheduler tcp://",))
