"""What follows from a profile's figures: predictions for target devices, advice, and the verdict.

Pure functions of a profile; nothing runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from advisor.devices.catalogue import load, names, of_device
from advisor.devices.entries import CatalogueEntry
from advisor.errors import UsageError
from advisor.model.measured import entry_of
from advisor.model.mixing import best_mix
from advisor.model.predict import predict
from advisor.profiles.conclusions import Preferences
from advisor.profiles.schema import Prediction, Profile
from advisor.rules.advise import advise
from advisor.rules.advise_lines import conclude_lines
from advisor.strategies.mixes import Mix, numbered, strategies_of
from advisor.strategies.registry import STRATEGIES, Strategy
from advisor.verdicts.predicted import by_time
from advisor.verdicts.scores import timed_again


def conclude(
    profile: Profile, targets: Sequence[CatalogueEntry], strategies: Sequence[Strategy] = STRATEGIES
) -> Profile:
    """Predictions for the target devices, then advice and verdict, all by the profile's preferences.

    A script has no strategies: its lines are predicted and advised.
    """
    if profile.script is not None:
        entry = like_device(profile) if profile.device.kind == "cuda" else None
        run = conclude_lines(profile.script, profile.device.name, entry, targets, profile.preferences)
        return profile.model_copy(update={"script": run})
    return advise(predict_targets(profile, targets, strategies))


def predict_targets(
    profile: Profile, targets: Sequence[CatalogueEntry], strategies: Sequence[Strategy] = STRATEGIES
) -> Profile:
    """A workload's profile with predictions for the target devices."""
    profile = timed_again(profile)
    placing = {strategy.name: strategy for strategy in strategies if isinstance(strategy, Strategy)}
    placing |= {name: mix for name, mix in strategies_of(profile).items() if isinstance(mix, Mix)}
    predictions = tuple(_predicted(profile, target, placing) for target in targets)
    return _with_predictions(profile, predictions)


def _predicted(profile: Profile, target: CatalogueEntry, placing: dict[str, Strategy]) -> Prediction:
    """The prediction, with the mix that the model finds for the device and adds to `placing`."""
    uniform = [strategy for strategy in placing.values() if not isinstance(strategy, Mix)]
    mixes = [strategy for strategy in placing.values() if isinstance(strategy, Mix)]
    best = best_mix(profile, target, uniform) if profile.method.search != "off" else None
    if best is None:
        return predict(profile, target, [*uniform, *mixes])
    new, work = best[0], profile.workload
    known = (m for m in mixes if (m.pipelined, m.assigned(work)) == (new.pipelined, new.assigned(work)))
    chosen = next(known, None) or numbered(new, 1 + len(mixes))
    placing[chosen.name] = chosen
    prediction = predict(
        profile, target, [*uniform, *(one for one in mixes if one.name != chosen.name), chosen]
    )
    results = tuple(
        row.model_copy(update={"instead": dict(best[1])}) if row.strategy == chosen.name else row
        for row in prediction.results
    )
    return prediction.model_copy(update={"results": results})


def _with_predictions(profile: Profile, predictions: Sequence[Prediction]) -> Profile:
    """They go by time where the objective cannot be predicted, which a note says."""
    note = by_time(profile.preferences.objective) if predictions else ""
    notes = dict.fromkeys((*((note,) if note else ()), *profile.notes))
    return profile.model_copy(update={"predictions": tuple(predictions), "notes": tuple(notes)})


def concluded(profile: Profile) -> Profile:
    """With a verdict: a partial profile has none, an earlier version's may be of other times."""
    if profile.script is not None:
        return profile
    profile = timed_again(profile)
    if profile.recommendation is not None:
        return profile
    return advise(profile) if profile.device.kind == "cuda" and profile.measured() else profile


def conclude_again(profile: Profile, preferences: Preferences) -> Profile:
    """The same figures by other preferences; the profile itself where they are those it was made with.

    Of a script they decide which advice is given. Devices are predicted again if the preferences decide
    between strategies. Raises `UsageError` where one is not in the catalogue.
    """
    if preferences == profile.preferences:
        return concluded(profile)
    if profile.script is not None:
        devices = [_entry_of(prediction.device) for prediction in profile.script.predictions]
        return conclude(profile.model_copy(update={"preferences": preferences}), devices)
    other = timed_again(profile.model_copy(update={"preferences": preferences}))
    if preferences.choice == profile.preferences.choice:
        return advise(other)
    known = strategies_of(other)
    predictions = [
        predict(
            other, _entry_of(p.device.name), [known[r.strategy] for r in p.results if r.strategy in known]
        )
        for p in profile.predictions
    ]
    return advise(_with_predictions(other, predictions))


def _entry_of(device: str) -> CatalogueEntry:
    if (entry := of_device(device)) is not None:
        return entry
    step = "Run `advisor predict PROFILE --target FILE.toml` with the same options."
    raise UsageError(f"{device} is not in the catalogue, so its verdict cannot be recomputed", next_step=step)


def like_device(profile: Profile) -> CatalogueEntry | None:
    """The device's entry, or that of one like it."""
    like_it = (entry for entry in map(load, names()) if entry.memory_class == profile.device.memory_class)
    return entry_of(profile.device) or next(like_it, None)
