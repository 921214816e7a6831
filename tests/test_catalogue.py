"""The catalogue: complete, sourced, consistent; wrong names and files say what to do."""

from __future__ import annotations

import math
import re
import tempfile
from functools import partial
from pathlib import Path
from typing import get_args

import builders
import pytest
from every import every
from hypothesis import given, settings
from hypothesis import strategies as st
from rendering import Accepted, refusals

from advisor.devices.catalogue import load, names
from advisor.devices.entries import (
    EXPLAINED,
    FLAGS,
    FOLLOWS,
    WHOLE,
    CatalogueEntry,
    Figures,
    explained,
    memory_class,
    moves_whole,
)
from advisor.errors import FileProblem
from advisor.model.machines import Machine, describe_all, describe_one, value
from advisor.model.predict import predict
from advisor.profiles.schema import MemoryClass, Predicted
from advisor.strategies.registry import STRATEGIES, concerning

CARD = """
name = "A card"
memory_class = "discrete"
[attributes]
integrated = { value = 0, source = "test" }
compute_capability = { value = "8.9", source = "test" }
[figures]
memory_bytes = { value = 8e9, source = "test" }
device_memory_bytes_per_second = { value = 500e9, source = "test" }
pinned_to_device_bytes_per_second = { value = 12e9, source = "test" }
pinned_to_host_bytes_per_second = { value = 12e9, source = "test" }
"""


def entry(tmp_path: Path, text: str = CARD) -> CatalogueEntry:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    return load(str(path))


def test_every_covered_entry_is_complete_enough_to_predict_with() -> None:
    n = 1 << 20
    workload, trace = builders.vector_add_workload(n), builders.vector_add_trace(n)
    run = builders.profile(workload=workload, traffic=trace)
    for entry in map(load, names()):
        rows = [row for row in predict(run, entry).results if isinstance(row, Predicted)]
        here = {s.name for s in concerning(STRATEGIES, workload) if s.unavailable(entry.device()) is None}
        assert {row.strategy for row in rows} == here, entry.name
        assert all(row.low_seconds > 0 for row in rows), entry.name


@every("name", names())
def test_figures_agree_with_one_another(name: str) -> None:
    figures = load(name).figures
    peak = figures.device_memory_bytes_per_second.value
    share, link = figures.achievable_share, figures.link_bytes_per_second
    # A share without a range would count as good to 15 % either way, and so exceed the whole.
    assert share is None or (share.low is not None and share.high is not None)
    assert 20e9 < peak < 9e12
    assert 1e9 < figures.memory_bytes.value < 300e9
    assert 0.2e12 <= figures.flops_per_second.value < 120e12
    assert figures.l2_bytes.value < figures.memory_bytes.value / 100
    for key in Figures.model_fields:
        if key.startswith(("pinned_to", "pageable_to", "zero_copy", "host_copy")):
            rate = getattr(figures, key)
            assert rate is None or (rate.high or rate.value) <= (link.value if link else peak), key


def test_names_are_found_with_the_vendors_words_and_the_nearest_is_offered(accepted: Accepted) -> None:
    written = ("ORIN_NANO", "Jetson Nano", "NVIDIA GeForce RTX 4090", "Tesla T4", "H200")
    assert [load(name).origin for name in written] == ["orin-nano", "nano", "rtx-4090", "t4", "h200"]
    names = ("rtx4090", "thor", "h100", "agx", "jetson xavier", "grx-1650-supre", "nope")
    accepted(refusals({name: partial(load, name) for name in names}), "devices-refused.txt")


def test_a_users_file_has_the_same_form(tmp_path: Path) -> None:
    loaded = entry(tmp_path, f"\ufeff{CARD}")
    assert loaded.name == "A card", "a byte order mark does no harm"
    assert loaded.device().attributes["total_global_mem"] == 8_000_000_000
    assert "l2_cache_size" not in loaded.device().attributes


WRONG = (
    ('memory_class = "discrete"', 'memory_class = "fast"'),
    ('value = "8.9"', 'value = "new"'),
    ('500e9, source = "test"', "500e9"),
    ("[figures]", "[figures]\nachievable_share = { value = 0.9, high = 1.1, source = 'x' }"),
    ('name = "A card"', 'name = "  "'),
    ('name = "A card"', 'name = "\udce4"'),
    ('name = "A card"', 'name = "A card"\norigin = "me"'),
    ("value = 0,", 'value = "no",'),
    ("[attributes]", "[attributes]\nl2_cache_size = { value = -1, source = 'x' }"),
    ('{ value = 500e9, source = "test" }', "500e9"),
    ("[figures]", "[numbers]"),
    ("[figures]", "name = 1\n[figures]\n[figures]"),
)


def test_a_wrong_file_names_the_key_and_what_was_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accepted: Accepted
) -> None:
    monkeypatch.chdir(tmp_path)
    calls = {f"{new!a}": partial(entry, Path(), CARD.replace(old, new)) for old, new in WRONG}
    accepted(refusals(calls), "device-files-refused.txt")


def test_what_is_drawn_of_a_users_card(tmp_path: Path) -> None:
    machine = Machine(entry(tmp_path))
    link = machine.get("pinned_to_host_bytes_per_second")
    assert (link[0], machine.get("zero_copy_read_bytes_per_second")[0] < 12e9) == (12e9, True)
    assert 12e9 / 1.15 <= link.min() < 11e9
    assert 13e9 < link.max() <= 12e9 * 1.15
    assert set(machine.get("device_memory_bytes_per_second")) == {500e9}
    rates = machine.pageable_rate("to_host")
    assert rates[0] < rates[1:].mean()  # the CPU's copies hide behind the link's, if anything
    assert machine.find("flops_per_second") is None
    assert machine.missing == {"flops_per_second", "pageable_to_host_bytes_per_second"}
    assert all(each.source and each.low <= each.value <= each.high for each in machine.assumed.values())


# Any wrong value, in any place


def attempt(content: str) -> CatalogueEntry | str:
    """The entry that a file of this content gives, or the message that it is refused with."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine.toml"
        path.write_text(content, encoding="utf-8")
        try:
            return load(str(path))
        except FileProblem as problem:
            return problem.message.removeprefix(f"{path}")


def with_figure(key: str, figure: str) -> str:
    """The card with that figure, in place of its own where it has one."""
    lines = [line for line in CARD.splitlines() if not line.startswith(f"{key} =")]
    return "\n".join((*lines, f"{key} = {figure}"))


KEYS = st.sampled_from(sorted(Figures.model_fields))
NUMBERS = st.floats(min_value=1e-9, max_value=1.0, allow_subnormal=False)


@given(
    KEYS,
    st.sampled_from(["value", "low", "high"]),
    st.floats(max_value=0) | st.just(math.inf) | st.just(math.nan),
)
@settings(max_examples=60, deadline=None)
def test_no_figure_is_zero_negative_or_infinite(key: str, part: str, wrong: float) -> None:
    value = "" if part == "value" else "value = 0.5, "
    message = attempt(with_figure(key, f'{{ {value}{part} = {wrong!r}, source = "x" }}'))
    assert isinstance(message, str)
    assert message.startswith(f": figures.{key}.{part}: expected ")
    assert f"but it is {wrong!r}" in message


@given(KEYS, NUMBERS, NUMBERS, NUMBERS)
@settings(max_examples=80, deadline=None)
def test_a_range_holds_its_value(key: str, low: float, value: float, high: float) -> None:
    figure = f'{{ value = {value!r}, low = {low!r}, high = {high!r}, source = "x" }}'
    result = attempt(with_figure(key, figure))
    assert isinstance(result, CatalogueEntry) == (low <= value <= high)
    assert isinstance(result, CatalogueEntry) or f"figures.{key}: expected low <= value <= high" in result


@given(st.sampled_from(sorted({*Figures.model_fields, *FLAGS})), st.data())
@settings(max_examples=60, deadline=None)
def test_a_misspelt_key_is_named_with_the_one_that_was_meant(key: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(key) - 1))
    wrong = key[:at] + "q" + key[at + 1 :]
    table = "attributes" if key in FLAGS else "figures"
    value = "0" if key in FLAGS else "1.0"
    line = f'{wrong} = {{ value = {value}, source = "x" }}'
    message = attempt(CARD.replace(f"[{table}]", f"[{table}]\n{line}"))
    assert isinstance(message, str)
    assert wrong in message
    assert key in message.partition("did you mean")[2]


@every("line", CARD.strip().splitlines())
def test_every_line_of_the_smallest_file_is_needed(line: str) -> None:
    message = attempt(CARD.replace(f"{line}\n", ""))
    assert isinstance(message, str)
    key = line.split(" =")[0].strip("[]")
    assert f"belongs under [{key}]" in message if line.startswith("[") else key in message


@given(
    st.dictionaries(st.sampled_from(FLAGS), st.integers(0, 1)),
    st.sampled_from(["6.2", "8.9", "11.0", "12.1"]),
)
@settings(max_examples=80, deadline=None)
def test_only_the_memory_class_that_follows_is_taken(flags: dict[str, int], capability: str) -> None:
    flags = {"integrated": 0, **flags}
    lines = "\n".join(f'{key} = {{ value = {flag}, source = "x" }}' for key, flag in flags.items())
    text = CARD.replace('integrated = { value = 0, source = "test" }', lines).replace("8.9", capability)
    link = 'link_bytes_per_second = { value = 450e9, source = "test" }'  # a coherent one has no other default
    text = text.replace("[figures]", f"[figures]\n{link}")
    follows = memory_class({**flags, "compute_capability": capability})
    for claimed in get_args(MemoryClass):
        result = attempt(text.replace('"discrete"', f'"{claimed}"'))
        assert isinstance(result, CatalogueEntry) == (claimed == follows)
        assert isinstance(result, CatalogueEntry) or f"expected memory_class = {follows!r}" in result


def test_a_device_without_an_entry_has_its_class() -> None:
    """The catalogue has a device of every other kind, whose class the file says too."""
    thor = {"integrated": 1, "compute_capability": "10.1", "pageable_memory_access": 1}
    assert memory_class(thor) == "tegra-coherent", "as CUDA 12 numbers it"
    assert memory_class({**thor, "integrated": 0}) == "discrete-hmm"


# In words, and in docs/devices.md


DOCS = (Path(__file__).parent.parent / "docs" / "devices.md").read_text(encoding="utf-8")


def documented(first_cells: set[str]) -> list[list[str]]:
    """The rows of the tables of docs/devices.md that begin with one of those."""
    lines = (line.strip("| ").split("|") for line in DOCS.splitlines() if line.startswith("|"))
    rows = [[cell.strip().strip("`") for cell in line] for line in lines]
    return [row for row in rows if row[0] in first_cells]


def test_the_documentation_is_the_catalogue_in_a_table_of_80_columns(tmp_path: Path) -> None:
    heading, *rows = (re.split(r" {2,}", line.strip()) for line in describe_all().splitlines())
    assert heading == ["device", "name", "memory class", "memory", "bandwidth"]
    assert max(map(len, describe_all().splitlines())) <= 80
    assert ["orin-nano", "Jetson Orin Nano 8GB", "tegra-io-coherent", "7.44 GiB", "68.0 GB/s"] in rows
    entries = [load(row[0]) for row in rows]
    assert len(rows) == len(names())
    order = list(FOLLOWS)
    keys = [(order.index(e.memory_class), e.figures.device_memory_bytes_per_second.value) for e in entries]
    assert keys == sorted(keys)
    assert documented(set(names())) == rows, "docs/devices.md should hold:\n" + "\n".join(
        f"| `{row[0]}` | {row[1]} | `{row[2]}` | {row[3]} | {row[4]} |" for row in rows
    )
    assert {*FOLLOWS} == {*EXPLAINED} == {*get_args(MemoryClass)}
    assert documented(set(FOLLOWS)) == [[name, *kinds.values()] for name, kinds in FOLLOWS.items()]
    loaded = [entry(tmp_path, block) for block in re.findall(r"```toml\n(.*?)```", DOCS, re.DOTALL)]
    assert [entry.memory_class for entry in loaded] == ["discrete", "discrete-hmm"]
    assert loaded[0].figures.pinned_to_device_bytes_per_second.low == 24.8e9


@every("name", names())
def test_one_device_is_told_with_all_figures_sources_and_consequences(name: str) -> None:
    text, entry = describe_one(name), load(name)
    attributes = entry.device().attributes
    words = " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith(f"{entry.name} ({name})\n")
    assert f"Memory class {entry.memory_class}: {explained(entry.memory_class, attributes)}" in words
    follows = FOLLOWS[entry.memory_class] | ({"managed": WHOLE} if moves_whole(attributes) else {})
    assert all(consequence in words for consequence in follows.values())
    for key, attribute in entry.attributes.items():
        assert f"{key} = {attribute.value}: {attribute.source}" in words
    for key in Figures.model_fields:
        figure = getattr(entry.figures, key)
        if figure is None:
            name = key.removesuffix("_bytes_per_second").removesuffix("_seconds")
            assert name in words.partition("Not known")[2].replace(" ", "_")
        else:
            assert f"{key} = {value(key, figure)}: {figure.source}" in words


def test_defaults_are_told_apart_from_what_is_known() -> None:
    known, _, rest = " ".join(describe_one("rtx-3060").split()).partition("Not known;")
    defaults, _, without = rest.partition("Not known and not needed by the model")
    assert re.search(r"fault_seconds = \d\d\.\d µs \(10\.0 µs to 50\.0 µs\): ObservUVM", defaults)
    assert ("fault_seconds" in known, "pageable to host" in without) == (False, True)
    assert "flops_per_second = 12.7 TFLOP/s (12.7 TFLOP/s to 13.2 TFLOP/s)" in known
