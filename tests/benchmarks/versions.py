"""How often a change of the code is found, and how often one is claimed where there is none.

`advisor compare --run` on versions that differ by so much in a host stage, a copy or a kernel; simulated, in
seconds, by tests/simulated_versions.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from advisor import api
from advisor.profiles.files import scratch
from advisor.report.versions_page import answer

SHARES = (0.0, 0.02, 0.05, 0.1, 0.2)
PLACES = ("host", "copy", "kernel")


def workload(place: str, share: float, *, no_gpu: bool) -> str:
    """A workload of 4 ms a frame on one core and 12 ms on an H200, with a share of it added in one place.

    The host stage sums that many more elements, the copy has that many more bytes, the kernel runs that many
    more times: each is about a third of the frame, so three times the share is added to it.
    """
    more = {each: 1 + 3 * share * (each == place) for each in PLACES}
    counts = {"host": 1500 if no_gpu else 3500, "copy": 6_000_000, "kernel": 1500 if no_gpu else 100}
    return _WORKLOAD.format(
        **{each: int(count * more[each]) for each, count in counts.items()},
        work="xp.sqrt(a[:512], out=b)" if no_gpu else "xp.sqrt(large, out=large)",
        large=512 if no_gpu else 1 << 23,
    )


_WORKLOAD = """\
import numpy as np
from advisor import Buffer, In, InOut, Out, Workload, device, host, workload

SMALL = np.ones(512, np.float32)


@workload
def planted() -> Workload:
    \"\"\"A third in the host stage, a third in copies, a third in the kernel.\"\"\"

    def fill(a: Out) -> None:
        a.fill(1)

    def write(a: InOut, frame: int) -> None:
        a[:1] = frame
        for _ in range({host}):
            np.sqrt(SMALL)

    def clear(xp, large: Out) -> None:
        large.fill(1)

    def compute(xp, a: In, large: InOut, b: Out) -> None:
        for _ in range({kernel}):
            {work}
        xp.add(a[:512], large[:512], out=b)

    def read(b: In) -> None:
        float(b[0])

    sizes = {{"a": {copy}, "b": 512, "large": {large}}}
    buffers = {{name: Buffer(size, np.float32) for name, size in sizes.items()}}
    frame = [host(write), device(compute), host(read)]
    return Workload(buffers, setup=[host(fill), device(clear)], frame=frame)
"""


def planted(place: str, share: float, seconds: float, *, no_gpu: bool) -> str:
    """What a real run says of the change under the baseline: slower, faster, same or cannot tell."""
    with scratch() as folder:
        files = [Path(folder) / name for name in ("base.py", "head.py")]
        for file, planted_share in zip(files, (0.0, share), strict=True):
            file.write_text(workload(place, planted_share, no_gpu=no_gpu), encoding="utf-8")
        began, load = time.monotonic(), os.getloadavg()[0]
        found = api.compare_versions(*files, no_gpu=no_gpu, max_seconds=seconds, quiet=True)
        took = time.monotonic() - began
    rounds = found.run.judged.rounds
    print(
        f"    {share:.0%} in {place}, load {load:.1f}: {rounds} rounds in {took:.1f} s, {answer(found)}",
        flush=True,
    )
    return found.rows[0].outcome if found.rows else "cannot tell"


def run(runs: int, *, no_gpu: bool) -> Iterator[str]:
    """Lines of a table: of so many runs each, how many claim a difference; identical code twice as many."""
    yield "planted  in       runs  slower  faster  same  cannot tell"
    for share in SHARES:
        seconds = 120.0 if share == 0.02 else 45.0
        for place in PLACES if share else PLACES[:1]:
            outcomes = [
                planted(place, share, seconds, no_gpu=no_gpu) for _ in range(runs if share else 2 * runs)
            ]
            counts = [outcomes.count(each) for each in ("slower", "faster", "same", "cannot tell")]
            yield f"{share:6.0%}   {place:8} {len(outcomes):4}" + "".join(
                f"{n:{w}}" for n, w in zip(counts, (8, 8, 6, 13), strict=True)
            )
