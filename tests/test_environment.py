"""The machine in the profile: what a reader needs, and nothing that names the user."""

from __future__ import annotations

import getpass
import os
import platform
from pathlib import Path

import psutil
import pytest

from advisor import environment as environments
from advisor.environment import command_line, environment


def test_this_machine() -> None:
    here = environment()
    assert (here.python, here.machine) == (platform.python_version(), platform.machine())
    assert here.cpu_count == len(os.sched_getaffinity(0))
    assert here.memory_bytes == psutil.virtual_memory().total
    assert here.system.startswith("Linux ")


def test_it_names_neither_host_nor_user() -> None:
    text = environment().model_dump_json()
    assert platform.node() not in text
    assert str(Path.home()) == "/" or str(Path.home()) not in text
    assert f'"{getpass.getuser()}"' not in text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("processor\t: 0\nmodel name\t: Intel X\nmodel name\t: Intel X\n", "Intel X"),
        ("processor\t: 0\nBogoMIPS\t: 1\n\nHardware\t: A\nModel\t: Raspberry Pi\n", "Raspberry Pi"),
    ],
)
def test_the_cpu_by_its_best_name(monkeypatch: pytest.MonkeyPatch, text: str, name: str) -> None:
    monkeypatch.setattr(environments.Path, "read_text", lambda *_, **__: text)
    assert environment().cpu_model == name
    assert environment().absent == {}


def test_a_cpu_without_a_name_is_absent_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments.Path, "read_text", lambda *_, **__: "processor\t: 0\n")
    here = environment()
    assert here.cpu_model is None
    assert here.absent == {"cpu_model": "/proc/cpuinfo does not name it"}


def test_a_busy_machine_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = len(os.sched_getaffinity(0))
    monkeypatch.setattr(os, "getloadavg", lambda: (cores * 0.7, 0.0, 0.0))
    assert environment().warnings == ()
    monkeypatch.setattr(os, "getloadavg", lambda: (cores * 0.8, 0.0, 0.0))
    (warning,) = environment().warnings
    assert f"load {cores * 0.8:.1f} on {cores} cores" in warning


def test_the_command_can_be_typed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments.Path, "home", lambda: Path("/home/ann"))
    typed = command_line(["profile", "/home/ann/my work/w.py", "--set", "n=2**4"])
    assert typed == "advisor profile '~/my work/w.py' --set 'n=2**4'"


def test_a_home_at_the_root_shortens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments.Path, "home", lambda: Path("/"))
    assert command_line(["report", "/a/b"]) == "advisor report /a/b"


def test_bytes_that_are_no_text_can_be_saved() -> None:
    assert command_line(["report", os.fsdecode(b"caf\xe9")]).encode() == b"advisor report 'caf?'"
