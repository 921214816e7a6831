"""The machine and its software: what stays as it is, and what GPU and board read before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from advisor import units
from advisor.profiles.redaction import WITHHELD
from advisor.profiles.schema import Measured, Profile
from advisor.profiles.system_state import CpuClocks, GpuState, HostState, Limit, TegraState
from advisor.report import words
from advisor.report.blocks import NOTHING, Column, Fact, Row, Table, TableCell

_State = TypeVar("_State", GpuState, TegraState)
_Value = TypeVar("_Value")


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
        *_entries(told.gpu),
        *_entries(told.packages),
        *(_host(told.host) if told.host else ()),
        *_entries(profile.device.attributes),
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
        *_entries(found),
        *(_alike("host", {"": told.host.absent}) if told.host else ()),
        *_alike("GPU", {r.moment: r.absent for r in told.gpu_readings}),
        *_alike("Jetson board", {r.moment: r.absent for r in told.tegra_readings}),
    )


def _alike(source: str, absent: Mapping[str, Mapping[str, str]]) -> Iterator[Fact]:
    """Figures with the same reason at the same moments; `absent` is by moment, then by figure."""
    single = [(figure, why, moment) for moment, told in absent.items() for figure, why in told.items()]
    moments = words.grouped(single, lambda one: one[:2])
    when = {told: tuple(moment for *_, moment in ones) for told, ones in moments.items()}
    for (reason, at), told in words.grouped(when, lambda one: (one[1], when[one])).items():
        where = source if len(at) == len(absent) else f"{source} {words.listing(at).replace('-', ' ')}"
        figures = words.listing((words.name(figure) for figure, _ in told), limit=20)
        yield Fact(f"{where}: {figures}", words.line(reason, 200))


def _entries(items: Mapping[str, object]) -> list[Fact]:
    return [Fact(words.name(key), words.line(str(value), 200)) for key, value in items.items()]


def _host(host: HostState) -> list[Fact]:
    inside = (name for name, there in (("WSL", host.wsl), ("a container", host.container)) if there)
    known = (
        ("CPU clock before the run", _clocks(host.cpu)),
        ("NUMA nodes", "; ".join(_node(n.node, n.cpus, n.memory_bytes) for n in host.numa_nodes[:16])),
        ("NUMA node of the GPU", _known(host.gpu_numa_node, str)),
        ("Memory available before the run", _size(host.memory_available_bytes)),
        ("Memory limit (cgroup)", _limit(host.memory_limit)),
        ("Locked-memory limit", _limit(host.locked_memory_limit)),
        ("Transparent huge pages", host.huge_pages or ""),
        ("CPU affinity", host.allowed_cpus or ""),
        ("Runs in", words.listing(inside)),
    )
    return [Fact(label, words.line(value, 300)) for label, value in known if value]


def _node(number: int, cpus: str, memory: int | None) -> str:
    told = ", ".join(filter(None, (f"CPUs {words.name(cpus)}" if cpus else "no CPUs", _size(memory))))
    return f"{number} ({told})"


def _gpu(states: Sequence[GpuState]) -> Table:
    first = states[0].throttled_seconds if states else {}
    figures: tuple[tuple[str, Callable[[GpuState], str]], ...] = (
        ("driver", lambda s: s.driver or ""),
        ("performance state", lambda s: _known(s.performance_state, "P{}".format)),
        ("SM clock", lambda s: _of(_hertz(s.sm_hertz), _hertz(s.sm_max_hertz))),
        ("memory clock", lambda s: _of(_hertz(s.memory_hertz), _hertz(s.memory_max_hertz))),
        ("power", lambda s: _of(_watts(s.power_watts), _watts(s.power_limit_watts))),
        ("temperature", lambda s: _celsius(s.temperature_celsius)),
        ("clocks throttled by", lambda s: _causes(s.throttle_reasons)),
        *(
            (f"throttled by {cause} since the first reading", partial(_since, cause, begin))
            for cause, begin in first.items()
        ),
        ("PCIe link", _links),
        ("memory used", lambda s: _of(_size(s.memory_used_bytes), _size(s.memory_total_bytes))),
        ("memory used by this process", lambda s: _size(s.process_bytes)),
        ("other processes", _others),
        ("busy", lambda s: _known(s.utilization, units.percent)),
    )
    return _table("GPU", states, figures)


def _tegra(states: Sequence[TegraState]) -> Table:
    zones = dict.fromkeys(zone for s in states for zone in s.temperatures_celsius)
    events = dict.fromkeys(cause for s in states for cause in s.over_current_events)
    figures: tuple[tuple[str, Callable[[TegraState], str]], ...] = (
        ("board", lambda s: s.board or ""),
        ("Jetson Linux", lambda s: s.l4t_release or ""),
        ("power mode", lambda s: s.power_mode or ""),
        ("highest power mode", lambda s: s.best_power_mode or ""),
        ("GPU clock", lambda s: _of(_hertz(s.gpu_hertz), _hertz(s.gpu_max_hertz))),
        ("memory clock", lambda s: _of(_hertz(s.memory_hertz), _hertz(s.memory_max_hertz))),
        ("CPU clock", lambda s: _clocks(s.cpu)),
        *(
            (f"temperature, {zone}", lambda s, zone=zone: _celsius(s.temperatures_celsius.get(zone)))
            for zone in zones
        ),
        ("GPU driver memory", lambda s: _size(s.gpu_memory_bytes)),
        *(
            (f"over-current events since boot, {c}", lambda s, c=c: str(s.over_current_events.get(c, "")))
            for c in events
        ),
        ("thermally throttled by", lambda s: _causes(s.throttle_alerts)),
    )
    return _table("Jetson board", states, figures)


def _table(
    title: str, states: Sequence[_State], figures: Iterable[tuple[str, Callable[[_State], str]]]
) -> Table:
    told = [(label, [words.line(tell(state), 120) for state in states]) for label, tell in figures]
    columns = tuple(Column(s.moment.replace("-", " "), figures=False) for s in states)
    rows = tuple(
        Row(words.name(label, 80), tuple(TableCell(value or NOTHING) for value in values))
        for label, values in told
        if any(values)
    )
    return Table("readings", title, columns, rows, label=f"{title}, readings", codes=False)


def _since(cause: str, begin: float, state: GpuState) -> str:
    elapsed = state.throttled_seconds.get(cause, begin) - begin
    return units.seconds(elapsed) if elapsed > 0 else ""


def _of(value: str, best: str) -> str:
    return f"{value} of {best}" if value and best else value


def _known(value: _Value | None, write: Callable[[_Value], str]) -> str:
    return "" if value is None else write(value)


_hertz = partial(_known, write=units.frequency)
_watts = partial(_known, write="{:.0f} W".format)
_celsius = partial(_known, write="{:.0f} °C".format)
_size = partial(_known, write=units.size)


def _limit(value: Limit | None) -> str:
    return value if isinstance(value, str) else _size(value)


def _causes(causes: tuple[str, ...] | None) -> str:
    return _known(causes, lambda told: words.listing(told) or "nothing")


def _clocks(cpu: CpuClocks) -> str:
    governors = f"governor {words.listing(cpu.governors)}" if cpu.governors else ""
    return ", ".join(filter(None, (_of(_hertz(cpu.hertz), _hertz(cpu.max_hertz)), governors)))


def _links(s: GpuState) -> str:
    both = (s.link_generation, s.link_width), (s.link_generation_max, s.link_width_max)
    now, most = (" ".join([*[f"gen {g}"] * bool(g), *[f"×{w}"] * bool(w)]) for g, w in both)
    return _of(now, most)


def _others(state: GpuState) -> str:
    memory = f", {_size(state.other_processes_bytes)}" if state.other_processes_bytes else ""
    return _known(state.other_processes, lambda count: f"{count}{memory}")
