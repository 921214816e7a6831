"""Everything a prediction had to assume, one sentence each."""

from __future__ import annotations

from advisor import units
from advisor.devices.catalogue import CatalogueEntry
from advisor.model.defaults import defaults, host_slowdown
from advisor.model.device_stages import ASSUMED_AGAIN
from advisor.model.device_texts import value
from advisor.model.machines import Machine
from advisor.model.monte_carlo import DRAWS
from advisor.profiles.schema import Trace


def assumptions(trace: Trace, machine: Machine) -> tuple[str, ...]:
    """What is not known of this device or this workload, and what was taken for it."""
    target = machine.entry
    return (
        f"All figures for {target.name} are predicted, none was measured on it. A range runs from the 5th to "
        f"the 95th percentile of {DRAWS} joint draws of all uncertain figures.",
        "A device stage launches a kernel for each traced array operation, a raw kernel once; transfers, "
        "kernels and host stages follow one another, except where frames overlap.",
        *_of_the_trace(trace, target),
        *(
            f"Not known: {_words(name)}; taken as {value(name, figure, _SPAN)} ({figure.source})."
            for name, figure in sorted(machine.taken.items())
            if figure.low != figure.high or figure.value != 1
        ),
        *(_WITHOUT[name] for name in sorted(machine.missing) if name in _WITHOUT),
    )


def _of_the_trace(trace: Trace, target: CatalogueEntry) -> list[str]:
    slower = host_slowdown(target)
    span = f"between {units.ratio(slower.low)} and {units.ratio(slower.high)}"
    sentences = [
        "A host stage takes between its bytes at the device's CPU rates and its time on the CPU that "
        "traced it.",
        f"Of the latter it takes {units.ratio(slower.value)}, {span} ({slower.source}).",
    ]
    sentences.extend(
        f"Tracing could not see stage {t.stage!r} use buffer {t.buffer!r}: taken as one pass, "
        f"at most {ASSUMED_AGAIN:g}."
        for t in trace.traffic
        if t.source == "assumed"
    )
    if any(t.source == "declared" for t in trace.traffic):
        sentences.append(
            "A kernel with declared passes finds what it reads again in the L2 cache, where that memory is "
            "cached; at the upper end only if all it touches fits."
        )
    return sentences


_SPAN = ", between {} and {}"
_WITHOUT = {
    "flops_per_second": "The rate of arithmetic is not known: kernels are taken as bound by memory.",
    "l2_bytes": "The size of the L2 cache is not known: every pass is taken from memory.",
}


def _words(name: str) -> str:
    if name in defaults().names:
        return defaults().names[name]
    end = next(end for end in _UNITS if name.endswith(end))
    return f"{name.removesuffix(end).strip('_').replace('_', ' ')} {_UNITS[end]}"


_UNITS = {"bytes_per_second": "rate", "bytes": "size", "seconds": "time", "share": "share"}
