"""Reading profile.json: one message for what is missing, damaged, impossible, or of another format."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pydantic import ValidationError

from advisor.errors import FileProblem
from advisor.profiles.schema import FORMAT, Measured, Predicted, Profile
from advisor.profiles.scripts import ScriptMeasured
from advisor.profiles.text_files import as_path, read_text

_FORMAT_1 = re.compile(r'"format"\s*:\s*1\s*[,}]')
_EQUAL = 0.05
"""How near the fastest format 1 called equal."""
_SHORTEST, _LONGEST = 1e-12, 1e9
"""Seconds: far below one cycle of any clock, and thirty years."""
_GIVE = "Give an undamaged profile.json written by `advisor profile`."


def load(path: Path | str) -> Profile:
    """Reads a profile, packed or not. Raises `FileProblem`: missing, damaged or of an unknown format."""
    path = as_path(path)
    try:
        return parse(read_text(path), str(path))
    except FileNotFoundError:
        what, step = "does not exist", "Give the path of a profile.json written by `advisor profile`."
    except IsADirectoryError:
        what, step = _of_a_directory(path)
    except UnicodeDecodeError:
        what, step = "is damaged: it is not UTF-8 text", _GIVE
    except OSError as problem:
        what, step = f"cannot be read: {problem}", "Check the path and its permissions."
    raise FileProblem(f"{path} {what}", next_step=step)


def _of_a_directory(path: Path) -> tuple[str, str]:
    """What is wrong with a directory as a profile, and which file in it to give."""
    if (path / "profile.json").is_file():
        return "is a directory", f"Give {path / 'profile.json'}."
    if found := sorted(path.glob("*/profile.json")):
        step = f"Give one, such as {found[0]}. To see all: advisor report {path}/*/profile.json."
        return f"is a directory with {len(found)} profiles; one is needed", step
    return "is a directory without a profile.json", _GIVE


def parse(text: str, name: str) -> Profile:
    """A profile from JSON; `name` is what messages call it. Raises `FileProblem`."""
    try:
        read = Profile.model_validate_json(_of_this_format(text))
    except ValidationError as problem:
        raise _what_is_wrong(text, name, problem) from None
    for rows in (read.results, *(prediction.results for prediction in read.predictions)):
        strategies = [row.strategy for row in rows]
        if twice := [strategy for strategy in strategies if strategies.count(strategy) > 1]:
            raise FileProblem(
                f"{name} is damaged: the strategy {twice[0][:60]!r} appears twice", next_step=_GIVE
            )
    return read


def _of_this_format(text: str) -> str:
    """The text itself, or that of format 1 as format 2 has it: without a verdict over what was measured,
    which is made again from its rounds, and with the words of predicted ones."""
    if not _FORMAT_1.search(text):
        return text
    try:
        old = json.loads(text)
        if type(old["format"]) is not int or old["format"] != 1:
            return text
        old["format"] = FORMAT
        old["recommendation"] = None
        for made in old.get("predictions", ()):
            if told := made.get("recommendation"):
                # A predicted verdict in the words of format 2.
                safest = told.pop("safest", None)
                told["strategy"] = told["strategy"] or safest
                if {"clear": True, "tie": True, "inconclusive": False}[told["verdict"]]:
                    told["verdict"] = "keep" if told["strategy"] == told.get("baseline") else "near"
                    told["bound"] = _EQUAL
                else:
                    told["verdict"] = "open"
        return json.dumps(old)
    except (ValueError, RecursionError, TypeError, AttributeError, KeyError):
        return text  # damaged: what is wrong is told of the text as it is


def _what_is_wrong(text: str, name: str, problem: ValidationError) -> FileProblem:
    """Of a text that is not a profile: not JSON at all, of another format, or the first key that is wrong."""
    try:
        head = json.loads(text)
    except (ValueError, RecursionError) as unreadable:
        return FileProblem(f"{name} is damaged: {unreadable}", next_step=_GIVE)
    if not isinstance(head, dict) or "format" not in head:
        return FileProblem(f'{name} is not a profile: the key "format" is missing', next_step=_GIVE)
    version = head["format"]
    if version not in (1, FORMAT) or isinstance(version, bool):
        return FileProblem(
            f"{name} has format {version!r}; this advisor reads formats 1 and {FORMAT}",
            next_step="If a newer advisor wrote it, upgrade: pip install -U gpu-memory-advisor",
        )
    first = problem.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return FileProblem(
        f"{name} is damaged: {where}: {first['msg']} (total problems: {problem.error_count()})",
        next_step="Profile again, or use an undamaged copy.",
    )


def require_plausible(profile: Profile, name: str) -> None:
    """Raises `FileProblem` where a time is outside what can be divided and drawn; `name` is the profile's.

    No clock can have taken it: the profile was damaged or made up.
    """
    rows = [*profile.results, *(row for made in profile.predictions for row in made.results)]
    for row in (*rows, *(profile.script.measured if profile.script else ())):
        times: tuple[float, ...] = ()
        if isinstance(row, Predicted):
            times = (row.low_seconds, row.likely_seconds, row.high_seconds)
        elif isinstance(row, (Measured, ScriptMeasured)):
            times = (*(s for taken in row.rounds for s in taken), row.median_seconds, *row.interval_seconds)
        for seconds in times:
            if not _SHORTEST <= seconds <= _LONGEST:
                what = "a run" if isinstance(row, ScriptMeasured) else "a frame"
                raise FileProblem(
                    f"{name} is damaged: {what} of {row.strategy} takes {seconds!r} s",
                    next_step="Profile again, or use an undamaged copy.",
                )


if __name__ == "__main__":
    print(json.dumps(Profile.model_json_schema(), indent=1))  # docs/profile.schema.json
