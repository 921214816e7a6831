"""The likely cost of each strategy on a device that is not here: a sum of terms a reader can check.

The steps are those the runner would take (strategies/schedule.py), the bytes those that tracing saw
(measure/cupy_mock/traffic.py), the rates the device's (machines.py), the formulas in terms.py. All is
computed at the likely figures and in joint draws of the uncertain ones, for all strategies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from advisor import units
from advisor.devices.entries import CatalogueEntry
from advisor.devices.host_rates import RATES, given_rates
from advisor.model.machines import Machine, in_words, value
from advisor.model.measured import cpu_busy, host_spread, learned, modelled
from advisor.model.simulate import Simulated, simulate, with_declared
from advisor.model.terms import DRAWS, Values, constant, span
from advisor.profiles.conclusions import Advice, Recommendation
from advisor.profiles.schema import (
    LARGEST_DRAW,
    WRONG_RESULTS,
    Failed,
    Predicted,
    PredictedResult,
    Prediction,
    Profile,
    Skipped,
    Trace,
)
from advisor.strategies.mixes import noted
from advisor.strategies.registry import BASELINE, STRATEGIES, Strategy, concerning
from advisor.verdicts.predicted import recommend_predicted, simulations
from advisor.verdicts.reasons import listing

_SECONDS = ("low_seconds", "likely_seconds", "high_seconds")
MUCH = 0.25
"""Part of what is uncertain of a strategy from which on a copy rate of the host is worth measuring."""
_SPAN = ", between {} and {}"
_TWIN = (
    "Stage {!r} was traced in its CPU twin. Its kernel is assumed to read and write as often, to keep "
    "temporaries to itself, and to reach between a hand-written kernel's share of the peak arithmetic and a "
    "library's."
)
_WITHOUT = {
    "flops_per_second": "The arithmetic rate is not known: kernels are assumed to be memory-bound.",
    "l2_bytes": "The size of the L2 cache is not known: every pass is assumed to read from memory.",
}


def predict(
    profile: Profile, target: CatalogueEntry, strategies: Sequence[Strategy] = STRATEGIES
) -> Prediction:
    """Predicts the strategies on the target from the profile's traffic, and from its times on a GPU if any.

    What cannot be predicted is a `Skipped` with the reason; all of them where nothing is known.
    """
    machine, strategies = Machine(target), concerning(strategies, profile.workload)
    known, wanted, spread = learned(profile, machine), profile.preferences, host_spread(profile)
    busy = cpu_busy(profile) if spread is None and profile.device.kind == "cpu" else 0.0
    outcomes = simulate(profile.workload, known.trace, machine, strategies, known) | _wrong(profile)
    rows = tuple(
        noted(_row(s.name, outcomes[s.name], spread, busy or None), s, profile.workload) for s in strategies
    )
    counted = {name: s.counted(wanted.objective) for name, s in outcomes.items() if isinstance(s, Simulated)}
    draws = {name: seconds[1:] for name, seconds in counted.items()}
    spans = {name: dict(zip(_SECONDS, span(seconds), strict=True)) for name, seconds in counted.items()}
    scored = tuple(row.model_copy(update=spans.get(row.strategy, {})) for row in rows)
    competing = _worth_it(scored, draws, wanted.indifference)
    chosen, sure = recommend_predicted(competing, draws, wanted)
    if chosen is not None:
        chosen = beside_mixes(chosen, scored, draws, wanted.indifference)
    others = sorted({BASELINE, str(chosen.strategy)} & set(draws)) if chosen else []
    trace = with_declared(profile.workload, known.trace)
    assumed: tuple[str, ...] = ()
    if draws and not isinstance(trace, str):
        assumed = (
            *assumptions(trace, machine),
            *_host_would_narrow(machine, draws, others),
            *known.sentences,
        )
    return Prediction(
        device=target.device(),
        results=tuple(_with_ratios(row, counted, others) for row in rows),
        recommendation=chosen,
        assumptions=assumed,
        confidence=sure,
    )


def _host_would_narrow(machine: Machine, draws: Mapping[str, Values], names: Iterable[str]) -> list[str]:
    """Where a copy rate of the host is much of what is uncertain of a strategy, by the squared correlation of
    their logarithms over the simulated devices: which, and how to give it."""
    if machine.shares_memory:
        return []
    rates = {
        "pinned_up": machine.get(RATES["pinned_up"]),
        "pinned_down": machine.get(RATES["pinned_down"]),
        "pageable_up": machine.pageable_rate("to_device"),
        "pageable_down": machine.pageable_rate("to_host"),
    }
    known = given_rates(machine.entry)
    unknown = {name: np.log(rate[1:]) for name, rate in rates.items() if name not in known and np.ptp(rate)}
    sentences = []
    for strategy in names:
        seconds = np.log(draws[strategy])
        parts = {
            name: float(np.corrcoef(seconds, rate)[0, 1] ** 2)
            for name, rate in unknown.items()
            if np.ptp(seconds)
        }
        name = max(parts, key=parts.__getitem__, default="")
        if name and parts[name] >= MUCH:
            sentences.append(
                f"{units.percent(parts[name])} of what is uncertain of {strategy} is how fast the target's "
                f"host copies ({name.replace('_', ' ')}). Measure it there with nvbandwidth or bandwidthTest "
                f"and give it: --host {name}=RATE, or the output to `advisor devices import`."
            )
    return sentences


def _worth_it(
    rows: Sequence[PredictedResult], draws: Mapping[str, Values], indifference: float
) -> tuple[PredictedResult, ...]:
    """Without mixes that are not faster than the best uniform strategy by more than the indifference, on most
    simulated devices; the verdict says how sure that is."""
    best = _best_uniform(rows)
    if best is None:
        return tuple(rows)
    gains = {name: float(np.percentile(draws[best.strategy] / own, 50)) for name, own in draws.items()}
    return tuple(r for r in rows if not r.placements or gains.get(r.strategy, 0.0) > 1 + indifference)


def _best_uniform(rows: Sequence[PredictedResult]) -> Predicted | None:
    uniform = [row for row in rows if isinstance(row, Predicted) and not row.placements]
    return min(uniform, key=lambda row: row.likely_seconds, default=None)


def beside_mixes(
    chosen: Recommendation, rows: Sequence[PredictedResult], draws: Mapping[str, Values], indifference: float
) -> Recommendation:
    """The choice with the reason why a mix that is likely faster than it is not a candidate."""
    best, candidates = _best_uniform(rows), {row.strategy for row in _worth_it(rows, draws, indifference)}
    predicted = {row.strategy: row for row in rows if isinstance(row, Predicted)}
    choice = predicted.get(chosen.strategy or "")
    others = [row for name, row in predicted.items() if name not in candidates]
    mix = min(others, key=lambda row: row.likely_seconds, default=None)
    if not (choice and mix and best) or mix.likely_seconds * (1 + indifference) >= choice.likely_seconds:
        return chosen
    share = float(np.mean(draws[best.strategy] > draws[mix.strategy] * (1 + indifference)))
    takes, over = units.seconds(mix.likely_seconds), f"{indifference * 100:g} % over {best.strategy}"
    step = (
        f"{mix.strategy} is likely faster ({takes} a frame), but not a candidate: it gains more than {over} "
        f"in {simulations(share)}, and a mix must in more than half of them."
    )
    return chosen.model_copy(update={"steps": (*chosen.steps, step), "reason": f"{chosen.reason} {step}"})


def _wrong(profile: Profile) -> dict[str, Simulated | str]:
    """Strategies that gave wrong results where they were measured, and how: they are recommended nowhere."""
    reasons = {row.strategy: row.reason for row in profile.results if isinstance(row, Failed)}
    reasons |= {name: row.outside for name, row in profile.measured().items()}
    return {name: why for name, why in reasons.items() if WRONG_RESULTS in why}


def _with_ratios(
    row: PredictedResult, counted: Mapping[str, Values], others: Iterable[str]
) -> PredictedResult:
    """The row with its counted time over that of others, draw by draw: what two strategies share cancels."""
    if isinstance(row, Skipped):
        return row
    own = counted[row.strategy]
    spans = {name: span(own / counted[name]) for name in others if name != row.strategy}
    return row.model_copy(update={"over": {name: (low, high) for name, (low, _, high) in spans.items()}})


def _row(
    name: str, outcome: Simulated | str, host_spread: float | None, cpu_busy: float | None
) -> PredictedResult:
    if isinstance(outcome, str):
        return Skipped(strategy=name, reason=outcome)
    low, likely, high = span(outcome.seconds)
    return Predicted(
        strategy=name,
        low_seconds=low,
        likely_seconds=likely,
        high_seconds=high,
        # In proportion, where the likely time is not that of the likely figures.
        terms={part: float(each[0]) * (likely / outcome.seconds[0]) for part, each in outcome.parts.items()},
        physical_bytes=outcome.physical_bytes,
        latency_seconds=None if outcome.latency is None else span(outcome.latency)[1],
        host_spread=host_spread,
        cpu_busy=cpu_busy,
        host_interval=_interval(outcome, host=True),
        device_path_interval=_interval(outcome, host=False),
        draws=" ".join(str(min(max(1, round(1000 * x)), LARGEST_DRAW)) for x in outcome.seconds[1:] / likely),
    )


def _interval(outcome: Simulated, *, host: bool) -> tuple[float, float] | None:
    """The range of the host's stages together, or of all else; None where the two overlap."""
    parts = [seconds for part, seconds in outcome.parts.items() if part.startswith("host:") == host]
    low, _, high = span(sum(parts, constant(0.0)))
    return (low, high) if low > 0 and outcome.latency is None else None


def with_estimates(profile: Profile, advice: Sequence[Advice]) -> tuple[Advice, ...]:
    """The advice with the model's estimate beside each gain that was measured, where it has one."""
    if not any(item.gain and item.gain.basis == "measured" for item in advice):
        return tuple(advice)
    likely = {name: span(seconds)[1] for name, seconds in modelled(profile).items()}

    def with_estimate(item: Advice) -> Advice:
        gain, new = item.gain, item.strategy
        if not gain or gain.basis != "measured" or gain.over not in likely or new not in likely:
            return item
        estimate = {"estimated_seconds_per_frame": likely[gain.over] - likely[new]}
        return item.model_copy(update={"gain": gain.model_copy(update=estimate)})

    return tuple(map(with_estimate, advice))


def assumptions(trace: Trace, machine: Machine) -> tuple[str, ...]:
    """Unknown facts of this device or workload, and what the model assumes instead."""
    target = machine.entry
    return (
        f"All figures for {target.name} are predicted, not measured. Ranges are the 5th to 95th "
        f"percentile of {DRAWS} simulated devices, with all uncertain figures drawn together.",
        "A device stage launches one kernel per traced array operation; a raw kernel is one launch. "
        "Transfers, kernels and host stages run one after another, except where frames overlap"
        + (" and on different GPUs, where no buffer orders them." if target.gpus > 1 else "."),
        *_of_the_trace(trace, machine),
        *(
            f"Copies, {name.replace('_', ' ')}: {units.rate(figure.value)} ({figure.source})."
            for name, figure in given_rates(target, inferred=True).items()
        ),
        *(
            f"Not known: {in_words(name)}; assumed {value(name, figure, _SPAN)} ({figure.source})."
            for name, figure in sorted(machine.assumed.items())
            if figure.low != figure.high or figure.value != 1
        ),
        *(_WITHOUT[name] for name in sorted(machine.missing) if name in _WITHOUT),
    )


def _of_the_trace(trace: Trace, machine: Machine) -> list[str]:
    sentences = [
        f"The loop with until={ran.until!r} runs {ran.mean:.3g} times in a frame, "
        f"{'the mean of the traced frames' if ran.counts else 'its maximum, since it was not traced'}."
        for ran in trace.iterations
    ]
    most, slower = machine.figure("assumed_passes").high or 1.0, machine.figure("host_slowdown")
    sentences += [
        "A host stage's bytes are counted at the rates of the device's CPU. The rest of its time on this CPU "
        "is what its memory, timed in the same run, does not explain."
        if trace.host_rates
        else "A host stage takes between its bytes divided by the device's CPU rates and its time on the CPU "
        "that traced it.",
        f"The device's CPU takes {value('host_slowdown', slower)} this CPU's time for the rest "
        f"({slower.source}).",
    ]
    for t in (t for t in trace.traffic if t.source == "assumed"):
        products, past = "", sum(again.bytes for again in t.again)
        if past:
            times = 1 + past / t.bytes_read
            products = f"; without a cache up to {times:.3g}, as products of the declared arithmetic"
        sentences.append(
            f"Tracing could not see how stage {t.stage!r} uses buffer {t.buffer!r}: one pass assumed, "
            f"at most {most:g}{products}."
        )
    shared = sorted({t.buffer for t in trace.traffic for again in t.again if again.shared_bytes})
    if shared and machine.multiprocessors is None:
        sentences.append(
            "The number of multiprocessors is not known: all kernels' blocks are assumed to read "
            f"{listing(shared)} from one L1 cache."
        )
    traced = {t.stage for t in trace.traffic if t.source == "traced"}
    sentences.extend(_TWIN.format(work.stage) for work in trace.work if work.twin and work.stage in traced)
    if any(t.source == "declared" for t in trace.traffic):
        sentences.append(
            "A kernel with declared passes re-reads from the L2 cache where that memory is cached; at "
            "the upper end of the range only if everything it touches fits."
        )
    return sentences
