"""Profiles that are packed, damaged or too large."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from builders import profile

from advisor.errors import FileProblem
from advisor.profiles.files import read_unpacked
from advisor.profiles.reading import load


def test_packed_profile_is_read_like_any_other(tmp_path: Path) -> None:
    file = tmp_path / "profile.json.gz"
    file.write_bytes(gzip.compress(profile().model_dump_json().encode()))
    assert load(file) == profile()


@pytest.mark.parametrize("cut", [3, 60, -5])
def test_packed_and_cut_short_is_damaged(cut: int, tmp_path: Path) -> None:
    file = tmp_path / "profile.json.gz"
    file.write_bytes(gzip.compress(profile().model_dump_json().encode())[:cut])
    with pytest.raises(FileProblem, match="is damaged"):
        load(file)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_what_is_too_large_is_refused_with_the_reason(pack: type[bytes], tmp_path: Path) -> None:
    """However small it is packed."""
    text = profile().model_dump_json().encode()
    file = tmp_path / "profile.json"
    file.write_bytes(pack(text))
    assert read_unpacked(file, len(text)) == text
    with pytest.raises(FileProblem, match="the maximum for a report") as raised:
        read_unpacked(file, len(text) - 1)
    assert "--rounds" in raised.value.next_step
