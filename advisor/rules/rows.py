"""The figures that rules compare: of a strategy, measured or predicted, and of how often kernels read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor import stats
from advisor.profiles.schema import PageLocking


@dataclass(frozen=True)
class Row:
    """One strategy's figures, measured or predicted, in seconds and bytes per frame."""

    strategy: str
    seconds: float
    interval: tuple[float, float]
    """Of the median when measured; the model's low and high when predicted."""
    device_seconds: float
    """Kernels alone: the sum of the device stages."""
    transfer_seconds: float
    transfer_bytes: int | None
    """Copied in one frame, both directions; None where it was not recorded."""
    physical_bytes: int
    predicted: bool
    rounds: tuple[tuple[float, ...], ...] = ()
    """Raw frames of each process; empty when predicted."""
    host_stages: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each host stage of a frame."""
    host_copy_seconds: float | None = None
    """The host's copies to and from external buffers; None where there are none."""
    pinned_bytes: int = 0
    """Page-locked memory taken."""
    setup_seconds: float | None = None
    """None when predicted."""
    latency_seconds: float | None = None
    """Begin to end of a frame, where frames overlap."""
    verified: bool | None = None
    """Its results were held against another run's; None when predicted."""
    fits: bool = True
    """Within the memory budget, so that it may be proposed."""
    synchronize_seconds: float = 0.0
    """Waiting that is part of no stage and of no copy."""
    drawn_over: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The range of this time over another strategy's, draw by draw; only of predicted rows (profiles.py)."""
    page_locking: PageLocking | None = None
    """What the workload page-locked by itself in its frames; None where nobody looked."""

    @property
    def host_seconds(self) -> float:
        """All host stages of a frame."""
        return sum(self.host_stages.values())

    @property
    def path_seconds(self) -> float:
        """What a memory strategy is about: kernels, copies, and the host's copies to external buffers."""
        return self.device_seconds + self.transfer_seconds + (self.host_copy_seconds or 0.0)

    @property
    def parts_seconds(self) -> float:
        """All parts of a frame one after another, as they are timed: its own time, but for the overlap and
        for the waits that timing each part adds."""
        return self.host_seconds + self.path_seconds + self.synchronize_seconds

    def part(self, seconds: float) -> float:
        """What part of a frame that many of its seconds are: all its parts make 1. 0 where none was timed.

        Parts are timed in frames that are broken down, which take longer than those that are not: over the
        median of the latter they would add up to more than the whole.
        """
        return seconds / self.parts_seconds if self.parts_seconds else 0.0

    def over(self, other: Row) -> stats.Ratio:
        """This time over the other's. Predicted: as drawn, else from the two ranges, the widest it can be."""
        if self.rounds and other.rounds:
            return stats.ratio_interval(self.rounds, other.rounds)
        widest = self.interval[0] / other.interval[1], self.interval[1] / other.interval[0]
        low, high = self._drawn(other) or widest
        return stats.Ratio(self.seconds / other.seconds, low, high)

    def _drawn(self, other: Row) -> tuple[float, float] | None:
        """Nothing where frames overlap: what is drawn counts them begin to end, `seconds` until the next."""
        if self.latency_seconds is not None or other.latency_seconds is not None:
            return None
        if other.strategy in self.drawn_over:
            return self.drawn_over[other.strategy]
        low, high = other.drawn_over.get(self.strategy, (None, None))
        return (1 / high, 1 / low) if low and high else None

    def beats(self, other: Row) -> bool:
        """Surely faster when measured; likely, by more than the equivalence margin, when predicted.

        The model errs alike for all strategies of a device, so its ranges may overlap where the order is
        plain; measured intervals may not.
        """
        ratio = self.over(other)
        if self.predicted or other.predicted:
            return ratio.value < 1 / (1 + stats.EQUIVALENCE)
        return ratio.high < 1


@dataclass(frozen=True)
class Reads:
    """How often the kernels of one frame read a buffer that both sides use."""

    buffer: str
    bytes: int
    passes: float
    stages: tuple[str, ...]
    known: bool
    """Traced or declared; otherwise each stage that reads it is taken to do so once."""
    new_each_frame: bool
    """A stage of the frame writes it, so that it has to reach the device again."""
