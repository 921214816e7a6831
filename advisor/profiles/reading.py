"""Reading profile.json: one message for what is missing, damaged, impossible, or of another format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from advisor.errors import FileProblem
from advisor.profiles import secrets
from advisor.profiles.base import Record, cleaned
from advisor.profiles.consistency import contradictions
from advisor.profiles.files import as_path, read_unpacked
from advisor.profiles.redaction import Masking
from advisor.profiles.schema import FORMAT, GONE, Failed, Measured, Predicted, Profile, Skipped
from advisor.profiles.system_state import GONE_OF_BOARDS, GONE_OF_GPUS
from advisor.texts import quoted, shortened

MOST = 20_000
"""Keys of a table with free keys, and items of a list, except frames and blocks: a report shows each."""
_NUMBERS = {float, int, type(None), ...}


def first_problem(value: object, record: type[Record], where: str = "") -> str | None:
    """The first key of the record, or of those in it, that is missing or unknown, and which of the two.

    Looked for before values are checked: pydantic tells every such key, each with the whole table that it
    stands in; of a file of 12 MB that takes half a minute and 2 GB.
    """
    if not isinstance(value, dict):
        return None
    required, known, shown_keys = _keys(record)
    if missing := [key for key in required if key not in value]:
        return f"{where}{missing[0]}: Field required"
    if unknown := value.keys() - known.keys():
        return f"{where}{shortened(min(unknown))}: Extra inputs are not permitted"
    for key in shown_keys & value.keys():
        if isinstance(value[key], (dict, list)) and len(value[key]) > MOST:
            return f"{where}{key}: there should be at most {MOST} in it, but there are {len(value[key])}"
    for key, form in known.items():
        if form is not None and key in value:
            for place, inner, kind in _within(value[key], form, f"{where}{key}"):
                if problem := first_problem(inner, kind, f"{place}."):
                    return problem
    return None


@cache
def _keys(record: type[Record]) -> tuple[tuple[str, ...], dict[str, Any], frozenset[str]]:
    """Required keys; all keys, with their type where it holds records; keys whose items a report shows."""
    fields = record.model_fields
    required = tuple(name for name, field in fields.items() if field.is_required())
    forms = {name: field.annotation if _records(field.annotation) else None for name, field in fields.items()}
    shown_keys = frozenset(n for n, field in fields.items() if not _leaves(field.annotation) <= _NUMBERS)
    return required, forms, shown_keys - {"blocks", "windows"}


def _leaves(form: Any) -> set[Any]:
    parts = get_args(form) if get_origin(form) is not Annotated else get_args(form)[:1]
    return {leaf for part in parts for leaf in _leaves(part)} if parts else {form}


def _records(form: Any) -> list[type[Record]]:
    """Record types in a type."""
    if isinstance(form, type) and not get_args(form):
        return [form] if issubclass(form, Record) else []
    return [record for part in get_args(form) for record in _records(part)]


def _within(value: object, form: Any, where: str) -> Iterator[tuple[str, object, type[Record]]]:
    """Each record in a value of this form, with its place and its type."""
    origin, parts = get_origin(form), get_args(form)
    if origin is Annotated:
        yield from _within(value, parts[0], where)
    elif origin is tuple and isinstance(value, list):
        for number, item in enumerate(value):
            yield from _within(item, parts[0], f"{where}.{number}")
    elif origin is dict and isinstance(value, dict):
        for key, item in value.items():
            yield from _within(item, parts[1], f"{where}.{key}")
    elif origin in (Union, UnionType):
        yield from _in_one_of(value, form, where)
    elif isinstance(value, dict) and form in _records(form):
        yield where, value, form


def _in_one_of(value: object, form: Any, where: str) -> Iterator[tuple[str, object, type[Record]]]:
    """`_within` for a union."""
    kinds = len(_records(form))
    for part in get_args(form):
        if get_args(part) or not _records(part):
            yield from _within(value, part, where)
        elif kinds == 1:
            yield where, value, part
        elif isinstance(value, dict) and value.get("status") == part.model_fields["status"].default:
            # Records of several kinds in one place differ in their status; pydantic's places name it too.
            yield f"{where}.{value['status']}", value, part


_MOST_MASKED = 2_000_000
"""Characters."""
_MOST_VALUES = 4_000_000
"""In lists and tables together, each of which takes some 100 bytes while it is read."""
_SHORTEST, _LONGEST = 1e-12, 1e9
"""Seconds: far below one cycle of any clock, and thirty years."""
_GIVE = "Give an undamaged profile.json written by `advisor profile`."


def load(path: Path | str) -> Profile:
    """Reads a profile, packed or not. Raises `FileProblem`: missing, damaged or of an unknown format."""
    path = in_directory(as_path(path))
    try:
        return parse(read_unpacked(path), str(path))
    except FileNotFoundError:
        what, step = "does not exist", "Give the path of a profile.json written by `advisor profile`."
    except UnicodeDecodeError:
        what, step = "is damaged: it is not UTF-8 text", _GIVE
    except OSError as problem:
        what, step = f"cannot be read: {problem}", "Check the path and its permissions."
    raise FileProblem(f"{path} {what}", next_step=step)


def in_directory(path: Path) -> Path:
    """The profile.json of a directory; another path as it is. Raises `FileProblem` where it has none."""
    if not path.is_dir() or (path / "profile.json").is_file():
        return path / "profile.json" if path.is_dir() else path
    if inside := sorted(path.glob("*/profile.json")):
        step = f"Give one, such as {inside[0]}. To see all: advisor report {path}/*/profile.json."
        raise FileProblem(f"{path} is a directory with {len(inside)} profiles; one is needed", next_step=step)
    raise FileProblem(f"{path} is a directory without a profile.json", next_step=_GIVE)


def parse(text: str | bytes, name: str) -> Profile:
    """A profile from JSON; `name` is what messages call it. Raises `FileProblem`."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    content = _content(data, name)
    if _drop_gone(content):
        data = to_json(content, inf_nan_mode="constants")
    if wrong := first_problem(content, Profile):
        raise _damaged(name, wrong)
    del content  # its memory is wanted for what follows
    try:
        read = Profile.model_validate_json(data)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise _damaged(name, f"{where}: {first['msg']}") from None
    if conflict := next(contradictions(read), None):
        raise _damaged(name, ": ".join(conflict))
    return _harmless(read)


def _drop_gone(content: dict[str, Any]) -> bool:
    """Removes what earlier versions wrote and nothing reads. Returns whether there was any."""
    machine = content.get("environment")
    readings = machine if isinstance(machine, dict) else {}
    of_keys = (
        ([content], GONE),
        ([row.get("host_pages") for row in _objects(content.get("results"))], ("nodes",)),
        (_objects(readings.get("gpu_readings")), GONE_OF_GPUS),
        (_objects(readings.get("tegra_readings")), GONE_OF_BOARDS),
    )
    held = [
        (record, key)
        for records, keys in of_keys
        for record in _objects(records)
        for key in keys
        if key in record
    ]
    for record, key in held:
        del record[key]
    return bool(held)


def _objects(values: Any) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


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


def _harmless(read: Profile) -> Profile:
    """The profile without secrets and control characters: anybody can have written the file.

    Beyond `_MOST_MASKED` characters that may hold secrets, such texts are left out, since masking takes long.
    """
    known, budget = secrets.secret_values((), read.workload.parameters), _MOST_MASKED

    def masked(text: str) -> str:
        nonlocal budget
        budget -= len(text) if secrets.may_hold_secrets(text) else 0
        return secrets.mask(text, known) if budget >= 0 else secrets.MASK

    profile: Profile = cleaned(read, Masking(masked))
    return profile


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
        older = version == 1 and not isinstance(version, bool)
        raise FileProblem(
            f"{name} has format {quoted(version)}; this advisor reads format {FORMAT}",
            next_step='Profile again, or use the advisor that wrote it: its version is under "tool".'
            if older
            else "If a newer advisor wrote it, upgrade: pip install -U gpu-memory-advisor",
        )
    script = content.get("script")
    if isinstance(script, dict) and "warm_up_seconds" in script:
        raise FileProblem(
            f"{name} compares whole runs of a script, as earlier versions of advisor did",
            next_step="Profile the script again: what it moves is now recorded by line.",
        )
    return content


def require_plausible(profile: Profile, name: str) -> None:
    """Raises `FileProblem` where a time is outside what can be divided and drawn; `name` is the profile's.

    No clock can have taken it: the profile was damaged or made up.
    """
    for strategy, times in _times(profile):
        for seconds in times:
            if not _SHORTEST <= seconds <= _LONGEST:
                raise FileProblem(
                    f"{name} is damaged: a frame of {strategy} takes {seconds!r} s",
                    next_step="Profile again, or use an undamaged copy.",
                )


def _times(profile: Profile) -> Iterator[tuple[str, Sequence[float]]]:
    """Strategy and its times in seconds; of rows and of the blocks behind them."""
    rows = [*profile.results, *(row for prediction in profile.predictions for row in prediction.results)]
    for row in rows:
        if isinstance(row, Predicted):
            yield row.strategy, (row.low_seconds, row.likely_seconds, row.high_seconds)
        elif isinstance(row, Measured):
            frames = (seconds for each in row.rounds for seconds in each)
            yield row.strategy, (*frames, row.median_seconds, *row.interval_seconds)
        if not isinstance(row, (Skipped, Failed)) and row.latency_seconds is not None:
            yield row.strategy, (row.latency_seconds,)
    for block in profile.blocks:
        latency = () if block.latency_seconds is None else (block.latency_seconds,)
        yield block.contestant, (block.seconds / block.frames, *block.frame_seconds, *latency)


if __name__ == "__main__":
    print(json.dumps(Profile.model_json_schema(), indent=1))  # docs/profile.schema.json
