"""The machine and its software: what stays as it is, and what GPU and board read before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from advisor import units
from advisor.profiles.redaction import WITHHELD
from advisor.profiles.schema import Measured, Profile
from advisor.profiles.system_state import CpuClocks, GpuState, HostState, Limit, TegraState
from advisor.report import words
from advisor.report.blocks import NOTHING, Column, Fact, Row, Table, TableCell

_State = TypeVar("_State", GpuState, TegraState)


def environment(profile: Profile) -> tuple[Fact, ...]:
    """System, software, host and the device's attributes."""
    told = profile.environment
    known = (
        ("Host", told.host_name),
        ("System", None if told.system == WITHHELD else f"{told.system}, {told.machine}"),
        ("Python", None if told.python == WITHHELD else told.python),
        ("CPU", told.cpu_model),
        ("CPU cores", told.cpu_count),
        ("Memory", units.size(told.memory_bytes) if told.memory_bytes else None),
    )
    return (
        *(Fact(label, words.line(str(value), 200)) for label, value in known if value is not None),
        *_entries(told.gpu.items()),
        *_entries(told.packages.items()),
        *(_host(told.host) if told.host else ()),
        *_entries(profile.device.attributes.items()),
    )


def readings(profile: Profile) -> tuple[Table, ...]:
    """What the GPU and the Jetson board read at each moment; a figure that no moment has is left out."""
    told = profile.environment
    tables = (_gpu(told.gpu_readings), _tegra(told.tegra_readings))
    return tuple(table for table in tables if table.rows)


def absent(profile: Profile) -> tuple[Fact, ...]:
    """What could not be read; figures of one source with the same reason stand together."""
    told = profile.environment
    found = dict(told.absent)
    for row in (r for r in profile.results if isinstance(r, Measured)):
        found.update(row.footprint.absent)
    return (
        *_entries(found.items()),
        *(_alike("host", {"": told.host.absent}) if told.host else ()),
        *_alike("GPU", {r.moment: r.absent for r in told.gpu_readings}),
        *_alike("Jetson board", {r.moment: r.absent for r in told.tegra_readings}),
    )


def _alike(source: str, absent: Mapping[str, Mapping[str, str]]) -> Iterable[Fact]:
    """Figures with the same reason at the same moments; `absent` is by moment, then by figure."""
    moments: dict[tuple[str, str], list[str]] = {}
    for moment, why in absent.items():
        for figure, reason in why.items():
            moments.setdefault((figure, reason), []).append(moment)
    figures: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (figure, reason), when in moments.items():
        figures.setdefault((reason, tuple(when)), []).append(words.name(figure))
    for (reason, at), names in figures.items():
        where = source if len(at) == len(absent) else f"{source} {words.listing(at).replace('-', ' ')}"
        yield Fact(f"{where}: {words.listing(names, limit=20)}", words.line(reason, 200))


def _entries(items: Iterable[tuple[str, object]]) -> list[Fact]:
    return [Fact(words.name(key), words.line(str(value), 200)) for key, value in items]


def _host(host: HostState) -> Iterable[Fact]:
    nodes = "; ".join(_node(n.node, n.cpus, n.memory_bytes) for n in host.numa_nodes[:16])
    inside = words.listing(
        name for name, there in (("WSL", host.wsl), ("a container", host.container)) if there
    )
    known = (
        ("CPU clock before", _clocks(host.cpu)),
        ("NUMA nodes", nodes),
        ("NUMA node of the GPU", "" if host.gpu_numa_node is None else str(host.gpu_numa_node)),
        ("Memory available before", _size(host.memory_available_bytes)),
        ("Memory limit of the control group", _limit(host.memory_limit)),
        ("Limit of locked memory", _limit(host.locked_memory_limit)),
        ("Runs in", inside),
    )
    return [Fact(label, words.line(value, 300)) for label, value in known if value]


def _node(number: int, cpus: str, memory: int | None) -> str:
    told = ", ".join(filter(None, (f"CPUs {words.name(cpus)}" if cpus else "no CPUs", _size(memory))))
    return f"{number} ({told})"


def _gpu(states: Sequence[GpuState]) -> Table:
    first = states[0].throttled_seconds if states else {}
    figures: tuple[tuple[str, Callable[[GpuState], str]], ...] = (
        ("driver", lambda s: s.driver or ""),
        ("performance state", lambda s: "" if s.performance_state is None else f"P{s.performance_state}"),
        ("SM clock", lambda s: _of(_hertz(s.sm_hertz), _hertz(s.sm_max_hertz))),
        ("memory clock", lambda s: _of(_hertz(s.memory_hertz), _hertz(s.memory_max_hertz))),
        ("power", lambda s: _of(_watts(s.power_watts), _watts(s.power_limit_watts))),
        ("temperature", lambda s: _celsius(s.temperature_celsius)),
        ("clocks held down by", lambda s: _causes(s.throttle_reasons)),
        *(
            (f"held down by {cause}, since the first reading", _since(cause, begin))
            for cause, begin in first.items()
        ),
        ("PCIe link", lambda s: _of(_link(s.link_generation, s.link_width), _max_link(s))),
        ("memory used", lambda s: _of(_size(s.memory_used_bytes), _size(s.memory_total_bytes))),
        ("memory of our process", lambda s: _size(s.process_bytes)),
        ("other processes", lambda s: _others(s)),
        ("busy", lambda s: "" if s.utilization is None else units.percent(s.utilization)),
    )
    return _table("GPU", states, figures)


def _tegra(states: Sequence[TegraState]) -> Table:
    zones = dict.fromkeys(zone for s in states for zone in s.temperatures_celsius)
    events = dict.fromkeys(cause for s in states for cause in s.over_current_events)
    figures: tuple[tuple[str, Callable[[TegraState], str]], ...] = (
        ("board", lambda s: s.board or ""),
        ("Jetson Linux", lambda s: s.l4t_release or ""),
        ("power mode", lambda s: s.power_mode or ""),
        ("least capped power mode", lambda s: s.best_power_mode or ""),
        ("GPU clock", lambda s: _of(_hertz(s.gpu_hertz), _hertz(s.gpu_max_hertz))),
        ("memory clock", lambda s: _of(_hertz(s.memory_hertz), _hertz(s.memory_max_hertz))),
        ("CPU clock", lambda s: _clocks(s.cpu)),
        *((f"temperature, {zone}", _zone(zone)) for zone in zones),
        ("memory of the GPU driver", lambda s: _size(s.gpu_memory_bytes)),
        *((f"over-current events since boot, {cause}", _events(cause)) for cause in events),
        ("held down for heat by", lambda s: _causes(s.throttle_alerts)),
    )
    return _table("Jetson board", states, figures)


def _table(
    title: str, states: Sequence[_State], figures: Iterable[tuple[str, Callable[[_State], str]]]
) -> Table:
    rows = [
        Row(words.name(label, 80), tuple(TableCell(words.line(tell(s), 120)) for s in states))
        for label, tell in figures
    ]
    return Table(
        "readings",
        title,
        tuple(Column(s.moment.replace("-", " "), figures=False) for s in states),
        tuple(
            replace(row, cells=tuple(cell if cell.value else TableCell(NOTHING) for cell in row.cells))
            for row in rows
            if any(cell.value for cell in row.cells)
        ),
        label=f"{title}, readings",
        codes=False,
    )


def _since(cause: str, begin: float) -> Callable[[GpuState], str]:
    def tell(state: GpuState) -> str:
        elapsed = state.throttled_seconds.get(cause, begin) - begin
        return units.seconds(elapsed) if elapsed > 0 else ""

    return tell


def _zone(zone: str) -> Callable[[TegraState], str]:
    return lambda state: _celsius(state.temperatures_celsius.get(zone))


def _events(cause: str) -> Callable[[TegraState], str]:
    return lambda state: str(state.over_current_events.get(cause, ""))


def _of(value: str, best: str) -> str:
    return f"{value} of {best}" if value and best else value


def _hertz(value: float | None) -> str:
    return "" if value is None else units.frequency(value)


def _watts(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} W"


def _celsius(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} °C"


def _size(value: int | None) -> str:
    return "" if value is None else units.size(value)


def _limit(value: Limit | None) -> str:
    return value if isinstance(value, str) else _size(value)


def _causes(causes: tuple[str, ...] | None) -> str:
    return "" if causes is None else words.listing(causes) or "nothing"


def _clocks(cpu: CpuClocks) -> str:
    governors = f"governor {words.listing(cpu.governors)}" if cpu.governors else ""
    return ", ".join(filter(None, (_of(_hertz(cpu.hertz), _hertz(cpu.max_hertz)), governors)))


def _link(generation: int | None, width: int | None) -> str:
    return " ".join(filter(None, (f"gen {generation}" if generation else "", f"×{width}" if width else "")))


def _max_link(state: GpuState) -> str:
    return _link(state.link_generation_max, state.link_width_max)


def _others(state: GpuState) -> str:
    if state.other_processes is None:
        return ""
    memory = f", {_size(state.other_processes_bytes)}" if state.other_processes_bytes else ""
    return f"{state.other_processes}{memory}"
