"""Where the user's code declares buffers and stages, from the workload's file to the advice in every form."""

from __future__ import annotations

from pathlib import Path

import builders

from advisor.profiles.schema import Profile
from advisor.report import pages
from advisor.rules.advise import conclude_again
from advisor.workloads.loading import load

FILE = """\
import dataclasses, functools
import numpy as np
from advisor import Buffer, In, Out, Workload, device, host, workload
from shapes import image

def produce(a: Out, b: Out, frame: int) -> None:
    a.fill(frame)

class Adder:
    def __call__(self, xp, a: In, b: In, c: Out) -> None:
        xp.add(a, b, out=c)

    def consume(self, c: In, d: In) -> None:
        c.sum()

@workload
def add() -> Workload:
    buffers = {n: Buffer(8, np.float32)
               for n in "ab"}
    buffers["c"] = image(8)
    buffers["d"] = dataclasses.replace(buffers["c"],
                                       shape=4)
    first = host(functools.partial(produce))
    return Workload(buffers, frame=[first, device(Adder()), host(Adder().consume)])
"""


def test_lines_of_loops_factories_classes_and_other_modules(tmp_path: Path) -> None:
    (tmp_path / "shapes.py").write_text(
        "from advisor import Buffer\n\ndef image(n):\n    return Buffer(n, 'f4')\n"
    )
    (tmp_path / "wl.py").write_text(FILE)
    record = load(tmp_path / "wl.py", "add", {}).record
    lines = {one.name: one.line for one in (*record.buffers, *record.stages)}
    assert [lines[name] for name in "abcd"] == ["wl.py:18", "wl.py:18", "shapes.py:4", "wl.py:21"]
    assert [lines[name] for name in ("partial", "Adder", "consume")] == ["wl.py:6", "wl.py:10", "wl.py:13"]


def declared(lines: dict[str, str]) -> Profile:
    work = builders.vector_add_workload()
    buffers = tuple(one.model_copy(update={"line": lines.get(one.name)}) for one in work.buffers)
    profile = builders.profile(workload=work.model_copy(update={"buffers": buffers}))
    return conclude_again(profile, profile.preferences)


def test_advice_names_the_lines_in_every_form() -> None:
    profile = declared({"a": "wl.py:18", "b": "wl.py:18", "c": "wl.py:20"})
    (one,) = (advice for advice in profile.advice if advice.rule == "pageable-transfer")
    assert one.lines == ("wl.py:18", "wl.py:20")
    page = pages.page_of(profile)
    for form in ("html", "md", "txt", "details"):
        assert "wl.py:18 and 20" in " ".join(pages.render(page, form).split()), form
    assert '"wl.py:18"' in pages.render(page, "json")
