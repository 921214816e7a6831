"""The catalogue in words, and docs/devices.md, which must not fall behind it."""

from __future__ import annotations

import re
from pathlib import Path

from every import every

from advisor.devices.catalogue import load, names
from advisor.devices.entries import EXPLAINED, FOLLOWS, WHOLE, Figures, explained, moves_whole
from advisor.model.machines import WIDTH, describe_all, describe_one, value

DOCS = (Path(__file__).parent.parent / "docs" / "devices.md").read_text(encoding="utf-8")


def cells(line: str) -> list[str]:
    return [cell.strip().strip("`") for cell in line.strip("| ").split("|")]


def documented(first_cells: set[str]) -> list[list[str]]:
    """The rows of the tables of docs/devices.md that begin with one of those."""
    rows = [cells(line) for line in DOCS.splitlines() if line.startswith("|")]
    return [row for row in rows if row[0] in first_cells]


def printed() -> list[list[str]]:
    return [re.split(r" {2,}", line.strip()) for line in describe_all().splitlines()]


def test_all_devices_stand_in_a_table_of_80_columns() -> None:
    heading, *rows = printed()
    assert heading == ["device", "name", "memory class", "memory", "bandwidth"]
    assert {row[0] for row in rows} == set(names())
    assert max(map(len, describe_all().splitlines())) <= WIDTH
    assert ["orin-nano", "Jetson Orin Nano 8GB", "tegra-io-coherent", "7.44 GiB", "68.0 GB/s"] in rows
    entries = [load(row[0]) for row in printed()[1:]]
    order = list(FOLLOWS)
    keys = [(order.index(e.memory_class), e.figures.device_memory_bytes_per_second.value) for e in entries]
    assert keys == sorted(keys)


def test_the_documentation_is_the_catalogue(tmp_path: Path) -> None:
    expected = printed()[1:]
    assert documented(set(names())) == expected, "docs/devices.md should hold:\n" + "\n".join(
        f"| `{row[0]}` | {row[1]} | `{row[2]}` | {row[3]} | {row[4]} |" for row in expected
    )
    assert list(FOLLOWS) == list(EXPLAINED)
    assert documented(set(FOLLOWS)) == [[name, *kinds.values()] for name, kinds in FOLLOWS.items()]
    path = tmp_path / "mine.toml"
    loaded = []
    for block in re.findall(r"```toml\n(.*?)```", DOCS, re.DOTALL):
        path.write_text(block, encoding="utf-8")
        loaded.append(load(str(path)))
    assert [entry.memory_class for entry in loaded] == ["discrete", "discrete-hmm"]
    assert loaded[0].figures.pinned_to_device_bytes_per_second.low == 24.8e9


@every("name", names())
def test_one_device_is_told_with_all_figures_sources_and_consequences(name: str) -> None:
    text, entry = describe_one(name), load(name)
    attributes = entry.device().attributes
    words = " ".join(text.split())
    assert max(map(len, text.splitlines())) <= WIDTH
    assert text.startswith(f"{entry.name} ({name})\n")
    assert f"Memory class {entry.memory_class}: {explained(entry.memory_class, attributes)}" in words
    follows = FOLLOWS[entry.memory_class] | ({"managed": WHOLE} if moves_whole(attributes) else {})
    assert all(consequence in words for consequence in follows.values())
    for key, attribute in entry.attributes.items():
        assert f"{key} = {attribute.value} {attribute.source}" in words
    for key in Figures.model_fields:
        figure = getattr(entry.figures, key)
        if figure is None:
            assert key in words.partition("Not known")[2]
        else:
            assert f"{key} = {value(key, figure)} {figure.source}" in words


def test_defaults_are_told_apart_from_what_is_known() -> None:
    known, _, rest = " ".join(describe_one("rtx-3060").split()).partition("Not known;")
    taken, _, without = rest.partition("Not known and not needed by the model")
    assert re.search(r"fault_seconds = \d\d\.\d µs \(10\.0 µs to 50\.0 µs\) ObservUVM", taken)
    assert "fault_seconds" not in known
    assert "zero_copy_read_bytes_per_second = " in taken
    assert "pageable_to_host_bytes_per_second computed from the CPU's copy rate" in without
    assert "flops_per_second = 12.7 TFLOP/s (12.7 TFLOP/s to 13.2 TFLOP/s)" in known
