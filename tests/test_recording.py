"""What is recorded of an unchanged script: its lines, loops, frames and origins."""

from __future__ import annotations

from pathlib import Path

from running import Command


def test_a_script_runs_unchanged_and_its_end_is_passed_on(command: Command) -> None:
    Path("s.py").write_text("import sys, torch\nprint(sys.argv[1])\nsys.exit(int(sys.argv[1]))\n")
    said = command("profile", "s.py", "--no-gpu", "--out", "o", "--", "7")
    assert said.code == 3
    assert "the script ended with exit code 7" in said.err
    assert Path("o/report.html").exists()
