"""What would change the model's choice: kernels that read more often, buffers of another size."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from advisor.devices.entries import CatalogueEntry
from advisor.model.context import scaled
from advisor.model.measured import entry_of
from advisor.model.predict import predict
from advisor.profiles.conclusions import Sensitivity
from advisor.profiles.schema import Profile, Trace

FACTORS = (2, 4, 8, 16, 32, 64)
MOST_STEPS = 40
"""Stages and buffers; above that nothing is computed: 19 predictions would take more than two seconds."""


def sensitivity(profile: Profile) -> Profile:
    """The profile with what would change the model's choice for the measured device, or for each target."""
    devices = [profile.device] if profile.device.kind != "cpu" else [p.device for p in profile.predictions]
    entries = ((device.name, entry_of(device)) for device in devices)
    found = (one for name, entry in entries if entry for one in turns(profile, entry, name))
    return profile.model_copy(update={"sensitivity": tuple(found)})


def turns(profile: Profile, entry: CatalogueEntry, device: str) -> Iterator[Sensitivity]:
    """Each question; none where the profile's traffic is not known, or the model's choice is another one.

    By the traced traffic alone: the measured times are left out.
    """
    trace = profile.traffic
    size = len(profile.workload.stages) + len(profile.workload.buffers)
    if trace is None or not trace.traffic or size > MOST_STEPS:
        return
    blind = profile.model_copy(update={"results": ()})
    now = predict(blind, entry).recommendation
    chosen = profile.recommendation
    if now is None or now.strategy is None:
        return
    same = (now.strategy, *now.tied_with)
    if chosen and chosen.strategy not in same:
        return
    kernels = {stage.name for stage in profile.workload.frame_stages("device")}
    changes: dict[str, Callable[[int], Profile]] = {
        "reads": lambda k: _reading(blind, trace, kernels, k),
        "larger": lambda k: _sized(blind, trace, k),
        "smaller": lambda k: _sized(blind, trace, 1 / k),
    }
    for question, changed in changes.items():
        factor, strategy = None, None
        for k in FACTORS:
            then = predict(changed(k), entry).recommendation
            if then and then.strategy and now.strategy not in (then.strategy, *then.tied_with):
                factor, strategy = k, then.strategy
                break
        yield Sensitivity.model_validate(
            {"device": device, "question": question, "factor": factor, "strategy": strategy}
        )


def _reading(profile: Profile, trace: Trace, device: set[str], factor: float) -> Profile:
    read = tuple(scaled(t, factor, "bytes_read") if t.stage in device else t for t in trace.traffic)
    return profile.model_copy(update={"traffic": trace.model_copy(update={"traffic": read})})


def _sized(profile: Profile, trace: Trace, factor: float) -> Profile:
    """Everything that goes with the buffers' size in proportion to it: bytes, arithmetic, time on the CPU."""
    workload = profile.workload
    moved = {
        "traffic": tuple(scaled(t, factor, "bytes_read", "bytes_written") for t in trace.traffic),
        "work": tuple(scaled(w, factor, "flops", "temporary_bytes", "seconds") for w in trace.work),
        "valid_bytes": {name: size * factor for name, size in trace.valid_bytes.items()},
    }
    sizes = {b.name: max(1, round(b.bytes * factor)) for b in workload.buffers}
    made = {
        "buffers": tuple(b.model_copy(update={"bytes": sizes[b.name]}) for b in workload.buffers),
        "stages": tuple(scaled(s, factor, "flops") for s in workload.stages),
    }
    traced = trace.model_copy(update=moved)
    return profile.model_copy(update={"traffic": traced, "workload": workload.model_copy(update=made)})
