"""Buffers of which a part is valid: a batch of another size in each frame, and what a kernel picks out."""

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, workload


def size(frame: int, most: int) -> int:
    """0 to `most` rows."""
    return frame * 7 % (most + 1)


@workload
def ragged(most: int = 16) -> Workload:
    """The host fills as many rows as came; the device doubles them; the host sums them."""
    sums = []

    def collect(count: Out, data: Out, frame: int) -> None:
        n = count[0] = size(frame, most)
        data[:n] = frame + np.arange(n)[:, None]

    def compute(xp, data: In, doubled: Out, frame: int) -> None:
        n = size(frame, most)
        xp.multiply(data[:n], 2, out=doubled[:n])

    def use(doubled: In, count: In) -> None:
        sums.append(doubled[: count[0]].sum())

    def check(frame: int, count: In, doubled: In) -> None:
        n = size(frame, most)
        assert count[0] == n, (frame, count)
        assert sums[-1] == 2 * 4 * sum(frame + row for row in range(n)), (frame, sums[-1])

    return Workload(
        {
            "count": Buffer(1, np.int32),
            "data": Buffer((most, 4), np.float64, valid="count"),
            "doubled": Buffer((most, 4), np.float64, valid="count"),
        },
        frame=[host(collect), device(compute), host(use)],
        check=check,
    )


def _pick(data, kept, count) -> None:
    rows = data[data % 3 == 0]
    kept[: len(rows)] = rows
    count[...] = len(rows)


@workload
def compaction(n: int = 32) -> Workload:
    """A kernel keeps the multiples of three and counts them; the host gets so many."""
    seen = []

    def produce(data: Out, frame: int) -> None:
        data[...] = frame + np.arange(n)

    def compact(xp, data: In, kept: Out, count: Out) -> None:
        launch = getattr(xp, "launch", lambda kernel, *arrays: kernel(*arrays))
        launch(_pick, data, kept, count)

    def use(kept: In, count: In) -> None:
        seen.append(kept[: count[0]].copy())

    def check(frame: int) -> None:
        expected = [value for value in range(frame, frame + n) if value % 3 == 0]
        assert seen[-1].tolist() == expected, (frame, seen[-1])

    return Workload(
        {
            "data": Buffer(n, np.int64),
            "kept": Buffer(n, np.int64, valid="count"),
            "count": Buffer(1, np.int32),
        },
        frame=[host(produce), device(compact), host(use)],
        check=check,
    )
