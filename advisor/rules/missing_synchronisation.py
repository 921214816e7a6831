"""missing-synchronisation: results that are right with synchronous copies and wrong without them."""

from advisor.profiles.conclusions import Evidence
from advisor.profiles.schema import WRONG_RESULTS
from advisor.rules.base import Case, Finding, Limits, Rule, not_applicable, passed
from advisor.rules.rows import placements


def judge(case: Case, _: Limits) -> Finding:
    """Says which strategies gave other results, where those that wait by themselves gave the right ones."""
    if case.machine is None:
        return not_applicable("Nothing was run on this device: there are no results to compare.")
    wrong = {name: why for name, why in case.failed.items() if why.startswith(WRONG_RESULTS)}
    agree = [row.strategy for row in case.rows.values() if row.verified]
    if not wrong and not agree:
        return not_applicable("The results of the strategies could not be compared.")
    right = _count("strategies whose results agree", len(agree))
    if not wrong:
        return passed("All strategies gave the same results.", right)
    shown = (_count("strategies whose results differ", len(wrong)), right)
    waiting = [name for name in agree if _waits(case, name)]
    if any(_waits(case, name) for name in wrong) or not waiting:
        differ = f"Results of {', '.join(wrong)} differ, but nothing points to a wait that is missing"
        none = "there is no strategy with synchronous copies that gave the right ones while the others failed"
        return passed(f"{differ}: {none}.", *shown)
    name, why = next(iter(wrong.items()))
    return Finding(
        "advice",
        f"The results of {', '.join(wrong)} are wrong ({name}: {why.removeprefix(WRONG_RESULTS)}), those of "
        f"{', '.join(waiting)} are right. There a copy waits for the GPU; elsewhere the frame waits for the "
        "stream that device stages run on, and for nothing else. Look for work on a stream of your own, for "
        "kernels started in a thread, and for arrays kept from an earlier frame: run it on the `stream` that "
        "a stage may ask for, or synchronise before the stage returns. In your program the same wait belongs "
        "before the CPU reads.",
        evidence=shown,
        inferred=True,
    )


def _waits(case: Case, strategy: str) -> bool:
    """Its copies to the host return when all that was on the stream is done."""
    placed = placements(strategy, case.workload).values()
    return any(placement.traits(case.device).blocking for placement in placed)


def _count(label: str, value: int) -> Evidence:
    return Evidence(label=label, value=value, unit="count")


RULE = Rule(
    id="missing-synchronisation",
    title="Wait for the GPU before the CPU uses what a kernel wrote",
    why="A synchronous copy waits for all that was queued before it on its stream. Take the copies away, "
    "as zero-copy, managed and page-locked memory do, and the wait is gone with them: the CPU reads what "
    "the kernel has not written yet, and writes what it still reads. It is the classic error of such a "
    "change, and it shows as results that are wrong now and then.",
    bad="""
    host, device = mapped_empty(shape, np.float32)
    produce(host)
    compute(device)
    total = host.sum()  # the kernel may still be writing""",
    good="""
    host, device = mapped_empty(shape, np.float32)
    produce(host)
    compute(device)
    stream.synchronize()
    total = host.sum()""",
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#asynchronous-concurrent-execution",
        "https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html",
    ),
    judge=judge,
)
