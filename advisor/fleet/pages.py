"""The files of a fleet's folder: fleet.html over all devices, all times side by side if they are few, and
`--emit placements.toml`, the strategy of each device for a program to read when it starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from advisor.profiles import outputs
from advisor.profiles.fleets import FleetRecord, Row
from advisor.profiles.reading import load
from advisor.profiles.sweeps import link
from advisor.report import pages
from advisor.report.fleet_page import fleet_page
from advisor.report.page import Page
from advisor.texts import toml_string
from advisor.verdicts.device_comparison import DeviceComparison, Member
from advisor.version import __version__

_MOST = 24
"""Devices whose times fit side by side."""


def write(record: FleetRecord, directory: Path, formats: Sequence[str]) -> tuple[Page, list[Path]]:
    """Writes all of them. Returns the combined page and the paths of its files. Raises `FileProblem`."""
    beside = list(_side_by_side(record, directory, formats))
    page = fleet_page(record, [folder for folder in beside if "html" in formats])
    return page, pages.write(page, directory, formats)


def _side_by_side(record: FleetRecord, directory: Path, formats: Sequence[str]) -> Iterator[str]:
    """Writes a page for each value of the swept parameter; yields the folders, "" for the fleet's own."""
    values = dict.fromkeys(row.value for row in record.rows)
    for value in values:
        rows = [row for row in record.rows if row.value == value and row.status == "profiled"]
        if 2 <= len(rows) <= _MOST:
            folder = f"values/{value}".replace("..", "") if value else ""
            if folder:
                folder = outputs.free_folder(directory, folder, pages.names("devices", formats))
            members = tuple(_member(row, directory, folder) for row in rows)
            pages.write(pages.page_of(DeviceComparison(members)), directory / folder, formats)
            yield folder


def _member(row: Row, directory: Path, folder: str) -> Member:
    """A device's profile, under the name that it has on the fleet's pages."""
    profile = load(directory / row.folder / "profile.json")
    profile = profile.model_copy(update={"device": profile.device.model_copy(update={"name": row.device})})
    up = "../" * len(Path(folder).parts)
    return Member(profile, link(f"{up}{row.folder}/report.html"))


def write_placements(path: Path, workload: str, rows: Sequence[Row]) -> Path:
    """Writes the table, and returns its path. Raises `FileProblem`."""
    return outputs.write(path.parent, path.name, "\n".join(_lines(workload, rows)) + "\n")


def _lines(workload: str, rows: Sequence[Row]) -> Iterator[str]:
    yield f"# The memory strategy of each device, by `advisor fleet` {__version__}. See docs/fleet.md."
    yield f"workload = {toml_string(workload)}"
    measured = [(r, r.device, r.strategy, r.verdict, "measured") for r in rows if r.strategy is not None]
    predicted = [(row, p.device, p.strategy, p.verdict, "predicted") for row in rows for p in row.predicted]
    seen = {(row.device, row.value) for row, *_ in measured}
    for row, name, strategy, verdict, basis in (*measured, *predicted):
        if basis == "predicted" and (name, row.value) in seen:
            continue
        seen.add((name, row.value))
        yield ""
        yield "[[device]]"
        yield f"name = {toml_string(name.partition(' #')[0])}"
        if row.value:
            parameter, _, value = row.value.partition("=")
            yield f"parameters = {{ {toml_string(parameter)} = {toml_string(value)} }}"
        yield f"strategy = {toml_string(strategy)}"
        yield f"verdict = {toml_string(verdict or '')}"
        yield f"basis = {toml_string(basis)}"
