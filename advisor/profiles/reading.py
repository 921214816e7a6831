"""Reading profile.json: one message for what is missing, damaged, impossible, or of another format."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from advisor.errors import FileProblem
from advisor.profiles import secrets
from advisor.profiles.base import cleaned, first_error
from advisor.profiles.consistency import contradictions
from advisor.profiles.files import as_path, read_whole
from advisor.profiles.outputs import PREVIOUS
from advisor.profiles.redaction import Masking
from advisor.profiles.schema import FORMAT, Profile
from advisor.texts import quoted, shortened

_MOST = 20_000
"""Keys of a table, and items of a list except numbers, blocks and windows: a report shows each."""
_MOST_MASKED = 2_000_000
"""Characters."""
_MOST_VALUES = 4_000_000
"""In lists and tables together, each of which takes some 100 bytes while it is read."""
_GIVE = "Give an undamaged profile.json written by `advisor profile`."


def load(path: Path | str) -> Profile:
    """Reads a profile. Raises `FileProblem`: missing, damaged or of an unknown format."""
    path = in_directory(as_path(path))
    if path.suffix == ".py":
        step = f"Profile it: advisor profile {path}. To compare two versions of it: advisor compare --run."
        raise FileProblem(f"{path} is Python code, not a profile", next_step=step)
    try:
        return parse(read_whole(path), str(path))
    except FileNotFoundError:
        what, step = "does not exist", "Give the path of a profile.json written by `advisor profile`."
    except OSError as problem:
        what, step = f"cannot be read: {problem.strerror}", "Check the path and its permissions."
    raise FileProblem(f"{path} {what}", next_step=step)


def in_directory(path: Path) -> Path:
    """The one profile.json of a directory; another path as it is. Raises `FileProblem` where it has none."""
    first, *others = all_in(path)
    if others:
        step = f"Give one, such as {first}. To see all: advisor report {path}."
        count = 1 + len(others)
        raise FileProblem(f"{path} is a directory with {count} profiles; one is needed", next_step=step)
    return first


def all_in(path: Path) -> list[Path]:
    """The profile.json of a directory, or those in folders of it, as a sweep or a fleet leaves them."""
    own = path / "profile.json"
    if not path.is_dir() or own.is_file():
        return [own if path.is_dir() else path]
    for folders in ("*", "*/*"):  # a fleet that sweeps has a folder for each value in each device's
        inside = sorted(path.glob(f"{folders}/profile.json"))
        if inside := [each for each in inside if PREVIOUS not in each.relative_to(path).parts]:
            return inside
    raise FileProblem(f"{path} is a directory without a profile.json", next_step=_GIVE)


def parse(text: str | bytes, name: str) -> Profile:
    """A profile from JSON; `name` is what messages call it. Raises `FileProblem`."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    content = _content(data, name)
    if too_large := _too_large(content, ""):
        raise _damaged(name, too_large)
    del content  # its memory is wanted for what follows
    try:
        read = Profile.model_validate_json(data)
    except ValidationError as problem:
        raise _damaged(name, first_error(problem)) from None
    if conflict := next(contradictions(read), None):
        raise _damaged(name, ": ".join(conflict))
    # Anybody can have written the file: without secrets and control characters. Masking takes long: beyond
    # `_MOST_MASKED` characters that may hold secrets, such texts are left out.
    known, budget = secrets.secret_values((), read.workload.parameters), _MOST_MASKED

    def masked(text: str) -> str:
        nonlocal budget
        budget -= len(text) if secrets.may_hold_secrets(text) else 0
        return secrets.mask(text, known) if budget >= 0 else secrets.MASK

    return cleaned(read, Masking(masked))


def _too_large(value: Any, where: str) -> str | None:
    """The first table or list with too many items. Looked for before values are checked: pydantic describes
    each wrong key of a table, which takes 4 GB for a million of them."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    if len(value) > _MOST:
        return f"{where or 'a profile'}: there should be at most {_MOST} in it, but there are {len(value)}"
    for key, inner in items:
        texts = isinstance(inner, list) and inner and not isinstance(inner[0], (int, float))
        shown = isinstance(inner, dict) or (texts and key not in ("blocks", "windows"))
        problem = _too_large(inner, f"{where}.{shortened(str(key))}".lstrip(".")) if shown else None
        if problem:
            return problem
    return None


def require_readable(saved: str | bytes, name: str) -> None:
    """Raises `FileProblem` where a profile that was just saved cannot be read again, which is our mistake."""
    try:
        parse(saved, name)
    except FileProblem as problem:
        raise FileProblem(
            f"{name} was saved, but cannot be read again: {problem.message}",
            next_step="Nothing is lost: the other files of the report are complete. Please report this as a "
            "bug in advisor.",
        ) from None


def read_back(paths: Iterable[Path]) -> None:
    """Raises `FileProblem` where the profile among these files cannot be read again."""
    for path in paths:
        if path.name == "profile.json":
            require_readable(path.read_bytes(), str(path))


def _damaged(name: str, what: str) -> FileProblem:
    step = "Profile again, or take an undamaged copy."
    return FileProblem(f"{name} is damaged: {shortened(what, 500)}", next_step=step)


def _content(data: bytes, name: str) -> dict[str, Any]:
    """The parsed JSON of a format that is read. Raises `FileProblem`."""
    if sum(map(data.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        raise FileProblem(f"{name} is damaged: it holds more than {_MOST_VALUES} values", next_step=_GIVE)
    try:
        content = from_json(data)
    except ValueError as unreadable:
        what = str(unreadable)
        try:
            data.decode()
        except UnicodeDecodeError:
            what = "it is not UTF-8 text"
        raise FileProblem(f"{name} is damaged: {what}", next_step=_GIVE) from None
    if not isinstance(content, dict) or "format" not in content:
        raise FileProblem(f'{name} is not a profile: the key "format" is missing', next_step=_GIVE)
    version = content["format"]
    if version != FORMAT:
        raise FileProblem(
            f"{name} has format {quoted(version)}; this advisor reads format {FORMAT}",
            next_step='Profile again, or use the advisor that wrote it: its version is under "tool".'
            if version == 1
            else "If a newer advisor wrote it, upgrade: pip install -U gpu-memory-advisor",
        )
    return content


if __name__ == "__main__":
    print(json.dumps(Profile.model_json_schema(), indent=1))  # docs/profile.schema.json
