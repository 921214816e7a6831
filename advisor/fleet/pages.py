"""The pages of a fleet's folder: fleet.html over all devices, and all times side by side if they are few."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from advisor.profiles import outputs
from advisor.profiles.fleets import FleetRecord, Row
from advisor.profiles.reading import load
from advisor.profiles.schema import Profile
from advisor.profiles.sweeps import link
from advisor.report import pages
from advisor.report.fleet_page import SIDE_BY_SIDE, fleet_page
from advisor.report.page import Page
from advisor.verdicts.device_comparison import DeviceComparison, Member

MOST = 24
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
        if 2 <= len(rows) <= MOST:
            folder = f"values/{value}".replace("..", "") if value else ""
            if folder:
                folder = outputs.free_folder(directory, folder, pages.names("devices", formats))
            members = tuple(_member(row, directory, folder) for row in rows)
            pages.write(pages.page_of(DeviceComparison(members)), directory / folder, formats)
            yield folder


def _member(row: Row, directory: Path, folder: str) -> Member:
    """A device's profile, under the name that it has on the fleet's pages."""
    made: Profile = load(directory / row.folder / "profile.json")
    made = made.model_copy(update={"device": made.device.model_copy(update={"name": row.device})})
    up = "../" * len(Path(folder).parts)
    return Member(made, link(f"{up}{row.folder}/report.html"))


__all__ = ["MOST", "SIDE_BY_SIDE", "write"]
