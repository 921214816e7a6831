"""Every code block of README, CONTRIBUTING and docs/ is run: on the CPU device, where that can be.

A Python block with a workload is saved under its function's name, one whose first line is a comment
`# name.py` under that, so that the page's commands find them. `# needs a GPU` in the first line says so.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from running import QUICK, REPOSITORY, environment

from advisor import starters
from advisor.backends import gpu_count, has_cupy
from advisor.loading import load

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
NEEDS_GPU = "# needs a GPU"
LANGUAGES = {"python", "sh", "toml", "cuda"}
NOTHING_MEASURED = 4
ELSEWHERE = {"advisor devices calibrate": "tests/test_calibration_command.py runs it"}
ONE_STRATEGY = ("--strategy", "pageable", "--target", "h200")


@dataclass(frozen=True)
class Block:
    """A fenced block and where it stands."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def file(self) -> str:
        """The name to save it under; empty where it has none."""
        first = self.text.partition("\n")[0]
        named = re.fullmatch(r"(?:#|//) ([\w-]+\.\w+)", first)
        if named:
            return named[1]
        made = re.search(r"^@workload\ndef (\w+)", self.text, re.MULTILINE)
        return f"{made[1]}.py" if made and self.language == "python" else ""

    def __str__(self) -> str:
        return f"{self.page.relative_to(REPOSITORY)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        yield Block(page, text.count("\n", 0, found.start()) + 1, found[1], found[2])


BLOCKS = [block for page in PAGES for block in blocks(page)]


def of(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


def lay_out(page: Path, folder: Path) -> None:
    """The page's files, the examples, and what its commands take for the reader's own."""
    (folder / "workloads").symlink_to(REPOSITORY / "workloads")
    starters.write(folder / "workload.py")
    (folder / "my-jetson.toml").write_bytes((REPOSITORY / "advisor/devices/orin-nano.toml").read_bytes())
    for block in blocks(page):
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")


def require_imports(text: str, folder: Path) -> None:
    """Skips where a module is missing that the code imports outside of `try`; one in `folder` is there."""
    for node in ast.parse(text).body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            top = name.partition(".")[0]
            if find_spec(top) is None and not (folder / top).exists():
                pytest.skip(f"{name} is not installed")


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=180, check=False
    )


def test_the_blocks_are_found_and_of_known_languages() -> None:
    assert len(of("python")) >= 9
    assert len(of("sh")) >= 9
    assert {str(block): block.language for block in BLOCKS if block.language not in LANGUAGES} == {}


@pytest.mark.parametrize("block", of("python"), ids=str)
def test_python(block: Block, tmp_path: Path) -> None:
    """A workload is right, and passes as its page's command or this test runs it; anything else is run."""
    compile(block.text, str(block), "exec")
    if (block.text.startswith(NEEDS_GPU) or "import cupy" in block.text) and not (gpu_count() and has_cupy()):
        pytest.skip("needs a GPU")
    require_imports(block.text, tmp_path)
    lay_out(block.page, tmp_path)
    if f"advisor profile {block.file}" in block.page.read_text(encoding="utf-8") and block.file:
        if "@workload" in block.text:
            load(tmp_path / block.file, None, {})
        return  # the command runs it
    if "@workload" in block.text:
        command = [sys.executable, "-m", "advisor", "profile", block.file, *QUICK, *ONE_STRATEGY]
    else:
        command = [sys.executable, "-c", block.text]
    done = run(command, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def commands() -> list[tuple[Block, str]]:
    """Each command of each shell block by itself."""
    lines = [(block, line) for block in of("sh") for line in block.text.splitlines() if line.strip()]
    return [(block, part.strip()) for block, line in lines for part in line.split("&&")]


@pytest.mark.parametrize(("block", "command"), commands(), ids=str)
def test_shell(block: Block, command: str, tmp_path: Path) -> None:
    """`advisor` runs, small; an installation is held against the extras that there are."""
    words = shlex.split(command.replace("$(python -m advisor.extras)", "[cuda13]"))
    if words[:2] == ["pip", "install"]:
        known = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        ours = [w for w in words[2:] if w.startswith((".[", "gpu-memory-advisor"))]
        assert all(extra in known for w in ours for extra in re.findall(r"[\w-]+", w.partition("[")[2]))
        return
    if words == ["python", "-m", "pytest"]:
        return
    assert words[0] == "advisor", f"teach this test what {command!r} is"
    for start, why in ELSEWHERE.items():
        if command.startswith(start):
            pytest.skip(why)
    lay_out(block.page, tmp_path)
    done = run([sys.executable, "-m", "advisor", *made_small(words[1:], tmp_path)], tmp_path)
    script = "it is a script" in done.stdout and not gpu_count()
    assert done.returncode == (NOTHING_MEASURED if script else 0), done.stdout + done.stderr


def made_small(words: list[str], folder: Path) -> list[str]:
    """The command with options that make it quick; its file must be importable here."""
    if words[0] != "profile":
        return words
    file = folder / words[1].partition("::")[0]
    own = "@workload" in file.read_text(encoding="utf-8")
    if not own:
        return words
    require_imports(file.read_text(encoding="utf-8"), file.resolve().parent)
    sized = ["--set", "n=1024"] if file.name == "vector_add.py" else []
    return [*words, *QUICK, *ONE_STRATEGY[:2], *sized]


@pytest.mark.parametrize("block", of("toml"), ids=str)
def test_toml(block: Block) -> None:
    assert tomllib.loads(block.text)


def test_every_cuda_block_is_saved_for_a_workload() -> None:
    """tests/test_kernel_sources.py compiles them."""
    assert all(block.file for block in of("cuda"))


def test_every_page_is_linked_from_the_readme_or_a_page_it_links() -> None:
    texts = {page: FENCE.sub("", page.read_text(encoding="utf-8")) for page in PAGES}
    linked = {REPOSITORY / "README.md"}
    waiting = list(linked)
    while waiting:
        page = waiting.pop()
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", texts.get(page, "")):
            found = (page.parent / target).resolve()
            for each in sorted(found.glob("*.md")) if found.is_dir() else [found]:
                assert each.exists(), f"{page}: {target} does not exist"
                if each not in linked:
                    linked.add(each)
                    waiting.append(each)
    assert set(PAGES) - linked == set()
