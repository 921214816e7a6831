"""Every code block of README, CONTRIBUTING and docs/ is run: on the CPU device, where that can be. The site
is built of them.

A Python block with a workload is saved under its function's name, one whose first line is a comment
`# name.py` under that, so that the page's commands find them. A page's other Python blocks run one after
the other, as a reader would run them; one with `...` in place of a value is a fragment, which is only read.
`# needs a GPU` in the first line says so.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from running import QUICK, REPOSITORY, SHORT, Command, ran
from test_host_rates import BANDWIDTH_TEST

from advisor.workloads import starters
from advisor.workloads.loading import load

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
LANGUAGES = {"python", "sh", "toml", "cuda", "yaml"}
GATE_FAILED = 1
ELSEWHERE = "advisor devices calibrate"
"""tests/test_calibration_command.py runs it."""
ONE_STRATEGY = ("--strategy", "pageable")


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
        named = re.match(r"(?:#|//) ([\w-]+\.\w+)\n", self.text)
        return named[1] if named else f"{self.workload}.py" if self.workload else ""

    @property
    def workload(self) -> str:
        """The function marked with @workload; empty without one."""
        for node in ast.parse(self.text).body if self.language == "python" else ():
            if isinstance(node, ast.FunctionDef) and "workload" in map(ast.unparse, node.decorator_list):
                return node.name
        return ""

    @property
    def is_fragment(self) -> bool:
        """`...` stands where a value would; as a body it is Python."""
        tree = ast.parse(self.text)
        bodies = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        dots = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and n.value is Ellipsis]
        return any(id(node) not in bodies for node in dots)

    @property
    def needs_gpu(self) -> bool:
        """Says so, or imports CuPy, and there is none."""
        return self.text.startswith(NEEDS_GPU) or "import cupy" in self.text

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
    data = REPOSITORY / "tests" / "data"
    for name, sample in (("before", "h200-vector_add-again.json"), ("after", "h200-vector_add.json")):
        (folder / name).mkdir()
        (folder / name / "profile.json").write_bytes((data / sample).read_bytes())
        starters.write(folder / name / "workload.py")
    (folder / "baselines").mkdir()
    (folder / "my-jetson.toml").write_bytes((REPOSITORY / "advisor/devices/orin-nano.toml").read_bytes())
    (folder / "bandwidth.txt").write_text(BANDWIDTH_TEST, encoding="utf-8")
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
            if top == "cv2" and "cv2.cuda" in text and not hasattr(import_module("cv2").cuda, "resize"):
                pytest.skip("this OpenCV was built without CUDA")


def marked(block: Block) -> Any:
    """A parameter, left to `make test-gpu` where it needs a GPU."""
    return pytest.param(block, marks=[pytest.mark.gpu] if block.needs_gpu else [])


@pytest.mark.parametrize("block", [marked(b) for b in of("python") if b.workload], ids=str)
def test_a_workload_passes(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `advisor profile` runs it; where the page's command does that, it only has to load."""
    require_imports(block.text, tmp_path)
    lay_out(block.page, tmp_path)
    if f"advisor profile {block.file}" in block.page.read_text(encoding="utf-8"):
        load(tmp_path / block.file, None, {})
        return
    monkeypatch.chdir(tmp_path)
    small = ("--set", "n=1024") if block.workload == "kmeans" else ()
    said = Command(monkeypatch, capsys)("profile", block.file, *QUICK, *ONE_STRATEGY, *small)
    assert said.code == 0, said.out + said.err


def plain(page: Path) -> list[Block]:
    """The page's blocks that are run as they are; a script's own file is run by the page's command.

    What stands in rules.md needs the user's program around it: `test_rules_explained.py` has one.
    """
    if page.name == "rules.md":
        return []
    return [b for b in blocks(page) if b.language == "python" and not b.file and not b.is_fragment]


ON_GPU = [page for page in PAGES if any(block.needs_gpu for block in plain(page))]
PYTHON = [(page, False) for page in PAGES if plain(page)]


@pytest.mark.parametrize(
    ("page", "gpu"),
    [*PYTHON, *(pytest.param(page, True, marks=pytest.mark.gpu) for page in ON_GPU)],
    ids=lambda part: getattr(part, "name", ""),
)
def test_a_page_s_python_runs(page: Path, gpu: bool, tmp_path: Path) -> None:
    """Without a GPU, the blocks that need none."""
    ready = [block for block in plain(page) if gpu or not block.needs_gpu]
    lay_out(page, tmp_path)
    text = "\n".join(block.text for block in ready)
    require_imports(text, tmp_path)
    (tmp_path / "reader.py").write_text(text, encoding="utf-8")
    done = ran([sys.executable, "reader.py"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("block", of("sh"), ids=str)
def test_shell(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its commands in order: `advisor` runs, small; an installation is held against the extras there are."""
    lay_out(block.page, tmp_path)
    monkeypatch.chdir(tmp_path)
    advisor = Command(monkeypatch, capsys)
    for line in block.text.splitlines():
        for command in line.split("&&"):
            follow(command.strip(), tmp_path, advisor)


def follow(command: str, folder: Path, advisor: Command) -> None:
    words = shlex.split(command.replace("$(python -m advisor.extras)", "[cuda13]"))
    if not words or words == ["python", "-m", "pytest"] or command.startswith(ELSEWHERE):
        return
    if words[:2] == ["pip", "install"]:
        known = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        ours = [w for w in words[2:] if w.startswith((".[", "gpu-memory-advisor"))]
        assert all(extra in known for w in ours for extra in re.findall(r"[\w-]+", w.partition("[")[2]))
        return
    if words[0] == "cp":
        assert ran(words, folder).returncode == 0
        return
    assert words[0] == "advisor", f"teach this test what {command!r} is"
    if words[1:3] == ["compare", "--run"]:  # tests/test_compare_versions.py runs it
        assert all(word in advisor("compare", "--help").out for word in words if word.startswith("--"))
        return
    said = advisor(*made_small(words[1:], folder))
    assert said.code in (0, GATE_FAILED * (words[1] == "compare")), said.out + said.err


def made_small(words: list[str], folder: Path) -> list[str]:
    """The command with options that make it quick; its file must be importable here."""
    if words[0] not in ("profile", "fleet"):
        return words
    file = folder / words[1].partition("::")[0]
    if "@workload" not in file.read_text(encoding="utf-8"):
        return words
    require_imports(file.read_text(encoding="utf-8"), file.resolve().parent)
    own_size = any(word.startswith("n=") for word in words)
    sized = ["--set", "n=1024"] if file.name == "vector_add.py" and not own_size else []
    quick = SHORT if "--target" in words else QUICK
    if "--local" in words:
        words[words.index("--local") + 1] = "1"
    return [*words, *quick, *ONE_STRATEGY, *sized]


def test_blocks_are_of_known_languages_and_valid() -> None:
    assert min(len(of("python")), len(of("sh"))) >= 9
    assert {str(block): block.language for block in BLOCKS if block.language not in LANGUAGES} == {}
    assert all(compile(block.text, str(block), "exec") for block in of("python"))
    assert all(tomllib.loads(block.text) for block in of("toml"))
    assert all(block.file for block in of("cuda"))


def test_the_readme_s_figures_are_those_of_the_pages() -> None:
    """`make accuracy` and `make rules-report` write them there."""
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert readme.count("\n") < 150, "two screens"
    accuracy = (REPOSITORY / "docs" / "accuracy.md").read_text(encoding="utf-8")
    whole = re.search(r"^\| all \|(.*)\|$", accuracy, re.MULTILINE)
    assert whole
    cases, figures, right, _, _, _, _, _, error, held, *_ = (cell.strip() for cell in whole[1].split("|"))
    assert f"| {right} cases |" in readme
    assert f"| {error} (median, {cases} cases) |" in readme
    assert f"| {held} of {figures} |" in readme
    gains = (REPOSITORY / "docs" / "rules-report.md").read_text(encoding="utf-8")
    told = re.search(r"Of the (\d+) whose .* the model has (\d+) the right way round", gains)
    assert told
    assert f"| {told[2]} of {told[1]} |" in readme


def test_what_make_is_said_to_do_and_to_run_exists() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    named = {name for page in PAGES for name in re.findall(r"`make ([a-z-]+)", page.read_text("utf-8"))}
    assert named - set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)) == set()
    files = re.findall(r"tests/\w+\.py", makefile)
    assert [file for file in files if not (REPOSITORY / file).is_file()] == []


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


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="mkdocs is not installed")
def test_the_site_has_every_page_draws_its_lists_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    """Its build finds links and anchors that lead nowhere."""
    done = ran([sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)], REPOSITORY)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {page.relative_to(REPOSITORY / "docs") for page in PAGES[2:]}
    assert [page for page in pages if not (tmp_path / page).with_suffix(".html").is_file()] == []
    index = json.loads((tmp_path / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert any(doc["location"] == "glossary.html" and "indifference" in doc["text"] for doc in index["docs"])
    whole = "".join(page.read_text("utf-8") for page in tmp_path.rglob("*.html"))
    elsewhere = r"""<(?:script|link|img|iframe)\b[^>]*?(?:src|href)="(?:https?:)?//[^"]*"""
    assert re.findall(elsewhere, whole) == []
    paragraphs = re.findall(r"<p>.*?</p>", whole, re.DOTALL)
    assert [p for p in paragraphs if re.search(r"\n\s*(- |\d+\. |\|)|```", p)] == []
