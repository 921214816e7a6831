"""unstable-measurement: the figures scatter so much that strategies cannot be distinguished."""

from statistics import median

from advisor import units
from advisor.devices.caveats import FIX_CLOCKS, moved_clocks
from advisor.profiles.conclusions import Evidence
from advisor.profiles.figures import Method
from advisor.profiles.system_state import Environment, HostState
from advisor.rules.base import Case, Finding, Limits, Row, advice, not_applicable, passed, text
from advisor.verdicts.reasons import Noise, noise_of


def judge(case: Case, limits: Limits) -> Finding:
    if case.machine is None or case.method is None:
        return not_applicable("Nothing was measured on this device.")
    contenders = _contenders(case)
    if not contenders:
        return not_applicable("No strategy has timed frames.")
    worst = max(contenders, key=_half_width)
    width, evidence = _half_width(worst), _evidence(worst)
    if width < limits["width"]:
        known = f"Medians are known to ±{units.percent(width)} or better"
        return passed(f"{known} among the strategies that matter.", *evidence)
    if case.verdict is not None and case.verdict.verdict not in ("open", "untrusted"):
        only = f"{worst.strategy} is known only to ±{units.percent(width)}"
        return passed(f"{only}, but the verdict does not depend on it.", *evidence)
    noise = noise_of(case.blocks, worst.strategy)
    between = "standard deviation between blocks, of a frame"
    if noise:
        evidence += (
            worst.figure(f"{worst.strategy}: host stages' {between}", noise.host, "ratio"),
            worst.figure(f"{worst.strategy}: the rest's {between}", noise.rest, "ratio"),
        )
    detail = text(
        f"The median of {worst.strategy} is known only to ±{units.percent(width)}, and the candidates for "
        f"the best are closer together: {_scatter(worst, 'blocks' if case.blocks else 'frames')}.",
        _of_the_host(worst, noise, case.machine),
        _seen(case.machine, noise),
        _again(case.method, bool(case.blocks)),
    )
    return advice(detail, *evidence, inferred=True)


def _again(method: Method, held_final: bool) -> str:
    if held_final:
        return f"Profile again with --max-seconds {3 * method.max_seconds:g} for more processes and blocks."
    return (
        f"Profile again with --rounds {max(10, 3 * method.rounds)}: the interval shrinks with the number "
        "of processes, not the length of a run."
    )


def _of_the_host(row: Row, noise: Noise | None, machine: Environment) -> str:
    """Where host stages are the noise: that they are, and what helps here."""
    if noise is None or not noise.is_the_hosts:
        return ""
    passes = f"fewer passes of host stages over their buffers, {noise.stage}'s first"
    helps = [*_node(machine.host), *_huge_pages(row, machine.host), passes]
    return (
        f"Its host stages vary by {units.percent(noise.host)} of a frame between blocks, everything else "
        f"by {units.percent(noise.rest)}: the placement of host memory decides. What helps: "
        f"{'; '.join(helps)}."
    )


def _node(host: HostState | None) -> list[str]:
    """Only where there is more than one, and the GPU's is known."""
    if host is None or host.gpu_numa_node is None or len([n for n in host.numa_nodes if n.cpus]) < 2:
        return []
    node = host.gpu_numa_node
    return [f"run on the GPU's NUMA node (numactl --cpunodebind={node} --membind={node})"]


def _huge_pages(row: Row, host: HostState | None) -> list[str]:
    """Only where the buffers are seen not to have them."""
    if row.huge_share is None or row.huge_share > MOSTLY or (host and host.huge_pages == "always"):
        return []
    return [f"huge pages, which {units.percent(row.huge_share)} of the buffers' memory has ({_THP})"]


MOSTLY = 0.5
"""The share of huge pages from which more of them are no advice."""
_THP = "echo always > /sys/kernel/mm/transparent_hugepage/enabled, as root"


def _contenders(case: Case) -> list[Row]:
    """The strategies between which the verdict is: those it could not tell apart, else the fastest."""
    verdict = case.verdict
    named = [] if verdict is None else [verdict.strategy, *verdict.tied_with]
    contenders = [row for row in case.rows.values() if row.strategy in named and row.rounds]
    best = case.fastest(row for row in case.rows.values() if row.rounds)
    return contenders or ([best] if best else [])


def _half_width(row: Row) -> float:
    """Half of the median's interval, as a share of the median."""
    return (row.interval[1] - row.interval[0]) / 2 / row.seconds


def _processes(row: Row) -> list[float]:
    return [median(frames) for frames in row.rounds if frames]


def _scatter(worst: Row, unit: str) -> str:
    """Whether processes differ, or already the frames or blocks of the worst one; as shares of the median."""
    medians = _processes(worst)
    between = (max(medians) - min(medians)) / worst.seconds
    ordered = [sorted(frames) for frames in worst.rounds if frames]
    # The middle half of the frames of a process.
    within = max(f[(3 * len(f)) // 4 - (len(f) % 4 == 0)] - f[len(f) // 4] for f in ordered) / worst.seconds
    if between > within:
        return (
            f"its processes differ by {units.percent(between)}, more than the {unit} of one process "
            f"({units.percent(within)}): what a process gets at its start, such as page placement, decides"
        )
    return f"the {unit} of one process already vary by {units.percent(within)}: there is another cause"


def _seen(machine: Environment, noise: Noise | None) -> str:
    """What the machine told that makes figures scatter, and what to do about it; or that it told nothing.

    The GPU's clocks are told where they moved. The CPU's governor, where host stages may be the noise.
    """
    states = machine.gpu_readings
    reasons = dict.fromkeys(reason for s in states for reason in s.throttle_reasons or ())
    others = max((s.other_processes or 0 for s in states), default=0)
    causes = [f"the GPU throttled ({', '.join(reasons)})"] if reasons else []
    causes += [f"other processes used the GPU ({others}): stop them"] if others else []
    if moved := moved_clocks(states):
        low, high = map(units.frequency, moved)
        causes.append(f"the GPU's clock was between {low} and {high} under load (to fix it: {FIX_CLOCKS})")
    governors = machine.host.cpu.governors if machine.host else ()
    if any(governor != "performance" for governor in governors) and (not noise or noise.is_the_hosts):
        causes.append(f"CPU clocks were controlled by the governor {', '.join(governors)}")
    if causes:
        return f"Observed during the run: {'; '.join(causes)}."
    return "" if noise and noise.is_the_hosts else "No reading of the machine explains it."


def _evidence(row: Row) -> tuple[Evidence, ...]:
    medians, half = _processes(row), "half-width of the median's interval"
    return (
        row.figure(f"{row.strategy}: {half}", _half_width(row), "ratio"),
        row.figure(f"{row.strategy}: fastest process", min(medians)),
        row.figure(f"{row.strategy}: slowest process", max(medians)),
        row.figure(f"{row.strategy}: processes", len(medians), "count"),
    )
