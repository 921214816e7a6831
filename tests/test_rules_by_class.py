"""What is recommended, and which rules speak, for four kinds of workload on each class of memory.

Predicted by the program's own model; what is expected are the rules of thumb that published measurements give
(docs/rules.md and docs/accuracy.md name them).
"""

from __future__ import annotations

from functools import cache

from builders import cpu_profile, vector_add_trace, vector_add_workload
from every import every
from rendering import Accepted
from test_model_frames import HMM

from advisor.devices.catalogue import load
from advisor.model.predict import predict
from advisor.profiles.conclusions import Advice
from advisor.profiles.schema import Predicted, Prediction, Profile
from advisor.report.words import grouped
from advisor.rules.advise import advise

IN_PLACE = frozenset({"zero-copy", "zero-copy-wc", "zero-copy-registered"})
MANAGED = frozenset({"managed", "managed-prefetch", "managed-advised"})
COPIED = frozenset({"pinned", "registered", "write-combined", "pinned-pipelined"})
PREFETCHED = MANAGED - {"managed"}
"""Of tiny frames `managed` itself is no slower: the driver leaves pages that thrash where they are. A product
of 64 by 64 on an H200 took 21.8 us managed and 21.6 us in place (reports/h200/matrix_multiply-64)."""
ONE_MEMORY = IN_PLACE | MANAGED | {"system"}

EXPECTED: dict[tuple[str, str], tuple[frozenset[str], frozenset[str]]] = {
    # The CPU reads page-locked memory about 12 times slower than managed memory.
    ("nano", "streaming"): (MANAGED, IN_PLACE | COPIED),
    ("nano", "re-reading"): (MANAGED, IN_PLACE),
    ("nano", "CPU-reading"): (MANAGED, IN_PLACE | COPIED),
    ("nano", "tiny"): (ONE_MEMORY, COPIED),
    ("tx2", "streaming"): (MANAGED, IN_PLACE | COPIED),
    ("tx2", "re-reading"): (MANAGED, IN_PLACE),
    # One pass over uncached memory is as good as managed memory, re-reads are not; the CPU caches both.
    ("orin-nano", "streaming"): (ONE_MEMORY, frozenset({"pageable", "pinned"})),
    ("orin-nano", "re-reading"): (MANAGED, IN_PLACE),
    ("orin-nano", "CPU-reading"): (ONE_MEMORY, frozenset({"pageable"})),
    ("orin-nano", "tiny"): (ONE_MEMORY, COPIED),
    ("xavier-nx", "streaming"): (ONE_MEMORY, frozenset({"pageable", "pinned"})),
    ("xavier-nx", "re-reading"): (MANAGED, IN_PLACE),
    # The reverse: registered and ordinary memory are cached, managed and mapped memory are not.
    ("agx-thor", "streaming"): (ONE_MEMORY, frozenset({"pageable"})),
    ("agx-thor", "re-reading"): (
        COPIED | {"zero-copy-registered", "system"},
        MANAGED | {"zero-copy", "zero-copy-wc"},
    ),
    ("agx-thor", "tiny"): (ONE_MEMORY, COPIED),
    # One streaming pass can beat copies; any re-read multiplies the bytes; small buffers want no copy calls.
    ("rtx-4090", "streaming"): (IN_PLACE | COPIED, MANAGED),
    ("rtx-4090", "re-reading"): (COPIED, IN_PLACE | {"managed"}),
    ("rtx-4090", "CPU-reading"): (IN_PLACE | COPIED, frozenset({"managed"})),
    ("rtx-4090", "tiny"): (IN_PLACE, COPIED | PREFETCHED | {"pageable"}),
    ("t4", "streaming"): (IN_PLACE | COPIED, MANAGED),
    ("t4", "re-reading"): (COPIED, IN_PLACE | {"managed"}),
    ("h200", "streaming"): (IN_PLACE | COPIED, frozenset({"managed", "pageable"})),
    ("h200", "re-reading"): (COPIED, IN_PLACE | {"managed"}),
    ("h200", "tiny"): (IN_PLACE, COPIED | PREFETCHED | {"pageable"}),
    # With HMM kernels reach ordinary memory, by faults.
    ("hmm", "streaming"): (IN_PLACE | COPIED, MANAGED | {"system"}),
    ("hmm", "re-reading"): (COPIED, IN_PLACE | {"system"}),
    ("hmm", "tiny"): (IN_PLACE, COPIED | PREFETCHED | {"system"}),
    # Host memory is alike by any name, and pages that both sides touch in turn are slow.
    ("gh200", "streaming"): (IN_PLACE | COPIED | {"system"}, frozenset({"managed", "staged"})),
    # Copies of ordinary memory run at the link's rate, too (ntua-el20062/grace-hopper-benchmark).
    ("gh200", "re-reading"): (IN_PLACE | COPIED | {"system", "pageable"}, frozenset({"managed"})),
    ("gh200", "tiny"): (IN_PLACE | {"system"}, COPIED),
    # One DRAM, all of it cached, no migration.
    ("gb10", "streaming"): (ONE_MEMORY, frozenset({"pageable", "staged"})),
    ("gb10", "re-reading"): (ONE_MEMORY, frozenset({"pageable", "staged"})),
    ("gb10", "tiny"): (ONE_MEMORY, COPIED),
}
"""By device and workload: one of these is recommended, and each of those takes a quarter longer at least."""


def run_of(kind: str) -> Profile:
    """Two vectors added; by kind the kernel reads its inputs 64 times, or the CPU its result 16 times."""
    n = {"streaming": 1 << 24, "tiny": 1024}.get(kind, 1 << 22)
    traced = vector_add_trace(n, 64.0 if kind == "re-reading" else 1.0)
    if kind == "CPU-reading":
        rows = (
            row.model_copy(update={"bytes_read": 16 * row.bytes_read}) if row.stage == "consume" else row
            for row in traced.traffic
        )
        traced = traced.model_copy(update={"traffic": tuple(rows)})
    return cpu_profile(workload=vector_add_workload(n), traffic=traced, predictions=(), advice=())


@cache
def concluded(name: str, kind: str) -> tuple[Prediction, dict[str, Advice]]:
    run = run_of(kind)
    prediction = predict(run, HMM if name == "hmm" else load(name))
    advice = advise(run.model_copy(update={"predictions": (prediction,)})).advice
    return prediction, {found.rule: found for found in advice}


@every(("name", "kind"), EXPECTED)
def test_what_is_recommended(name: str, kind: str):
    prediction, _ = concluded(name, kind)
    wanted, slow = EXPECTED[name, kind]
    assert prediction.recommendation.strategy in wanted
    seconds = {row.strategy: row.likely_seconds for row in prediction.results if isinstance(row, Predicted)}
    best = seconds[prediction.recommendation.strategy]
    # Overlapping frames hide what others show: they count for throughput, and are compared elsewhere.
    compared = [other for other in slow & set(seconds) if other != "pinned-pipelined"]
    assert compared
    assert {other: seconds[other] / best for other in compared if seconds[other] < 1.25 * best} == {}


def test_who_speaks(accepted: Accepted) -> None:
    """No rule fails, and none makes up the readings, nodes and failures of another machine than this one."""
    text = []
    for name, kind in EXPECTED:
        _, found = concluded(name, kind)
        assert {advice.certainty for advice in found.values()} <= {None, "predicted"}
        outcomes = grouped(found.values(), lambda advice: advice.outcome)
        spoken = (f"{advice.rule}: {advice.strategy}" for advice in outcomes.pop("advice", []))
        outcomes.pop("not-applicable")
        others = (f"{outcome}: {', '.join(a.rule for a in each)}" for outcome, each in outcomes.items())
        text += [f"## {kind} on {name}", *spoken, *others, ""]
    accepted("\n".join(text), "who-speaks.txt")
