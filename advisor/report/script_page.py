"""The page of a script's profile."""

from __future__ import annotations

import shlex

from advisor import units
from advisor.profiles.crossings import Crossing, ScriptRun
from advisor.profiles.schema import Profile
from advisor.report import blocks, words
from advisor.report.machine import environment
from advisor.report.page import Page, Section, circumstances, download, lead


def script_page(profile: Profile, script: ScriptRun) -> Page:
    device, made = words.name(profile.device.name), words.created(profile.created)
    arguments, tool = words.line(shlex.join(script.arguments), 300), words.name(profile.tool.version)
    notes = tuple(map(words.line, profile.notes))
    machine = environment(profile)
    return Page(
        kind="report",
        brand="what a script moves",
        name=f"{words.line(profile.workload.file, 120)} {arguments}".rstrip(),
        where=f"on {device}, as a script",
        basis="measured",
        summary=words.line(profile.workload.summary, 300),
        meta=(made,),
        sections=(
            lead(blocks.Banners("note", notes, forms="html"), _lines(script)),
            circumstances(
                method=(blocks.Fact("Command", words.line(profile.command, 500)),),
                machine=machine,
                facts=machine[:10],
                notes=notes,
                made=f"advisor {tool}, {made}",
            ),
            Section("raw", "Raw data", (download(profile),), nav="Raw data", forms="html"),
        ),
        tool=f"advisor {tool}",
        created=made,
        profile=profile,
    )


def _lines(script: ScriptRun) -> blocks.Table:
    columns = tuple(blocks.Column(head) for head in ("kind", "count", "bytes", "memory"))
    return blocks.Table("crossings", "line", columns, tuple(map(_row, script.crossings)), title="Crossings:")


def _row(crossing: Crossing) -> blocks.Row:
    place = words.line(f"{crossing.place.file}:{crossing.place.line}", 120)
    cells = (crossing.kind, str(crossing.count), units.size(crossing.bytes), crossing.memory)
    return blocks.Row(place, tuple(map(blocks.TableCell, cells)))
