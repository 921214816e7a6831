"""`advisor new`: a workload to start from."""

from __future__ import annotations

from advisor.cli import options
from advisor.cli.console import say


def new(
    file: options.NewFile,
    like: options.Like = None,
    force: options.ForceNew = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a commented workload to start from; it runs unchanged."""
    from advisor.workloads import starters

    for path in starters.write(file, like=like, force=force):
        print(path)
    if not quiet:
        say(f"  next: advisor profile {file}")
