"""The slowest frames, CPU time, energy and set-up on a page."""

from __future__ import annotations

from typing import Any

from builders import MIB, footprint, measured, profile, recommendation
from running import missing

from advisor.profiles.figures import FrameEnergy, HostPages, PlaceMemory, Quantile
from advisor.profiles.schema import Measured, Profile
from advisor.report import html, markdown, terminal
from advisor.report.blocks import NOTHING, Block, Fold, Prose, Table
from advisor.report.pages import page_of
from advisor.report.tables import by_gpu, more_figures

NO_COUNTER = "NVML's energy counter: NVML does not support it on this GPU"


def told(median: float, **fields: Any) -> dict[str, Any]:
    p95 = Quantile(seconds=1.2 * median, low_seconds=1.1 * median, high_seconds=1.3 * median)
    p99 = Quantile(seconds=1.5 * median, low_seconds=1.4 * median, high_seconds=2.0 * median)
    energy = FrameEnergy(
        joules=0.5, watts=250.0, idle_watts=75.0, seconds=2.1, frames=210, source="NVML's energy counter"
    )
    whole = footprint(pageable=192 * MIB, device=192 * MIB).model_copy(
        update={
            "places": {
                "host": PlaceMemory(steady_bytes=43 * MIB, peak_bytes=235 * MIB),
                "gpu0": PlaceMemory(steady_bytes=258 * MIB, peak_bytes=258 * MIB),
            }
        }
    )
    pages = HostPages(bytes=192 * MIB, huge_bytes=96 * MIB)
    given = {"p95": p95, "p99": p99, "cpu_seconds": 0.004, "energy": energy, "footprint": whole}
    return {**given, "host_pages": pages, **fields}


def page(*rows: Measured) -> Profile:
    return profile(results=rows, recommendation=recommendation())


FULL = measured("pinned", 0.010, **told(0.010))
LACKING = measured(
    "pageable", 0.020, **told(0.020, p99=None, energy=None, absent={"p99": "too few", "energy": NO_COUNTER})
)


def blocks(*rows: Measured) -> list[Block]:
    return list(more_figures(rows, None, {}))


def table(found: list[Block], kind: str) -> Table:
    (one,) = [b for b in found if isinstance(b, Table) and b.kind == kind]
    return one


def test_figures_stand_beside_one_another_with_their_bounds() -> None:
    found = table(blocks(FULL, LACKING), "more")
    cells = {row.name: [cell.value for cell in row.cells] for row in found.rows}
    assert cells == {
        "pinned": ["12.0 ms", "15.0 ms", "4.00 ms", "500 mJ", "500 ms"],
        "pageable": ["24.0 ms", NOTHING, "4.00 ms", NOTHING, "500 ms"],
    }
    assert [cell.note for cell in found.rows[0].cells] == [
        "11.0 to 13.0 ms", "14.0 to 20.0 ms", "", "250 W total, 75.0 W idle", "",
    ]  # fmt: skip


def test_what_is_absent_has_its_reason_and_energy_its_source() -> None:
    (fold,) = [b for b in blocks(FULL, LACKING) if isinstance(b, Fold)]
    assert [(item.names, item.status, item.text) for item in fold.blocks[0].items] == [
        (("pageable",), "no p99", "too few"),
        (("pageable",), "no energy", NO_COUNTER),
    ]
    (source,) = [b.text for b in blocks(FULL, LACKING) if isinstance(b, Prose)]
    assert source == "Energy: NVML's energy counter."


def test_each_of_several_gpus_has_its_kernels_memory_and_energy_in_all_three_forms() -> None:
    energy = told(0.010)["energy"].model_copy(update={"gpus": (0.4, 0.1)})
    places = {f"gpu{n}": PlaceMemory(steady_bytes=MIB, peak_bytes=n * MIB) for n in (0, 1)}
    whole = FULL.footprint.model_copy(update={"places": places})
    row = measured("pinned", 0.010, energy=energy, footprint=whole, stage_seconds={"add": 0.002})
    ran = page(row)
    (add,) = ran.workload.frame_stages("device")
    assert list(by_gpu(ran)) == [], "one GPU"
    stages = tuple(s.model_copy(update={"gpu": 1}) if s == add else s for s in ran.workload.stages)
    several = ran.model_copy(update={"workload": ran.workload.model_copy(update={"stages": stages})})
    found = table(list(by_gpu(several)), "gpus")
    assert {row.name: [cell.value for cell in row.cells] for row in found.rows} == {
        "pinned, GPU 0": [NOTHING, "0 B", "400 mJ"],
        "pinned, GPU 1": ["2.00 ms", "1.00 MiB", "100 mJ"],
    }
    made = page_of(several)
    for drawn in (html.render(made), markdown.render(made), terminal.render(made, details=True)):
        text = drawn.replace("\N{NO-BREAK SPACE}", " ")
        assert "pinned, GPU 1" in text
        assert not missing(text, "2.00 ms", "1.00 MiB", "100 mJ")
