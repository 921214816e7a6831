"""What the model says that a measured change is worth: the estimate beside each measured gain.

The model is asked as if nothing had been measured: by the catalogue's figures and the traced traffic alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from advisor.model.measured import compare
from advisor.profiles.schema import Advice, Profile


def with_estimates(profile: Profile, advice: Iterable[Advice]) -> tuple[Advice, ...]:
    """The advice with the model's estimate beside each gain that was measured, where it has one."""
    told = tuple(advice)
    if not any(item.gain and item.gain.basis == "measured" for item in told):
        return told
    likely = {row.strategy: row.likely for row in compare(profile).rows}
    return tuple(_with_estimate(item, likely) for item in told)


def _with_estimate(advice: Advice, likely: Mapping[str, float]) -> Advice:
    gain = advice.gain
    if gain is None or gain.basis != "measured" or not {gain.over, advice.strategy} <= set(likely):
        return advice
    estimate = likely[gain.over or ""] - likely[advice.strategy or ""]
    return advice.model_copy(
        update={"gain": gain.model_copy(update={"estimated_seconds_per_frame": estimate})}
    )
