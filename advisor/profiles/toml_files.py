"""Reading TOML that anybody may have written: as much text and as long keys as a person writes."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from advisor.profiles.text_files import read_bytes
from advisor.texts import shortened

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LARGEST = 1_000_000
"""Bytes. The largest file of the catalogue has 12,000."""
_MOST_PARTS = 30
"""Parts of one dotted key: reading takes time and memory by the square of them."""
_PART = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_LONG_KEY = re.compile(rf"(?<![\w-])(?:{_PART}[ \t]*\.[ \t]*){{{_MOST_PARTS}}}")


def read_toml(path: Path) -> dict[str, Any]:
    data = read_bytes(path, LARGEST)
    if len(data) > LARGEST:
        raise ValueError(f"it holds more than {LARGEST / 1e6:g} MB")
    try:
        # Some editors put a byte order mark before UTF-8, which TOML does not know.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        byte = problem.object[problem.start]
        raise ValueError(f"expected UTF-8, but byte {problem.start} is 0x{byte:02x}") from None
    if _LONG_KEY.search(text):
        raise ValueError(f"a key has more than {_MOST_PARTS} parts")
    return parse_toml(text)


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a text. Raises ValueError that says in a line what is wrong."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its arrays or tables are nested too deep") from None
    except tomllib.TOMLDecodeError as problem:
        raise ValueError(f"expected TOML: {shortened(problem)}") from None
    except ValueError:  # Python's own limit
        raise ValueError("a number has too many digits") from None
