"""Buffers of which a part is valid: a batch of another size in each frame, and what a kernel picks out."""

import numpy as np

from advisor import Buffer, In, InOut, Out, Workload, device, host, workload


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


@workload
def large_state(rows: int = 8, columns: int = 6) -> Workload:
    """A state on the device, of which the host sets row 0, and looks at a column."""
    seen = []

    def start(state: Out) -> None:
        state.fill(1)

    def steer(state: InOut[0, :], frame: int) -> None:
        state[0] += frame

    def advance(xp, state: InOut) -> None:
        xp.add(state, 1, out=state)

    def look(state: In[:, 2]) -> None:
        seen.append(state[:, 2].copy())

    def check(frame: int, state: In) -> None:
        expected = np.full((rows, columns), frame + 2.0)
        expected[0] += sum(range(frame + 1))
        assert (state == expected).all(), (frame, state)
        assert (seen[-1] == expected[:, 2]).all(), (frame, seen[-1])

    return Workload(
        {"state": Buffer((rows, columns), np.float64)},
        setup=[host(start)],
        frame=[host(steer), device(advance), host(look)],
        check=check,
    )


@workload
def ring(tile: int = 32) -> Workload:
    """Two tiles in turn: the host fills one while the other is in use; a kernel of each."""
    sums = []

    def start(tiles: Out) -> None:
        tiles.fill(0)

    def fill_first(tiles: Out[0], frame: int) -> None:
        tiles[0] = frame

    def fill_second(tiles: Out[1], frame: int) -> None:
        tiles[1] = -frame

    def use_first(xp, tiles: In[0], total: Out[:1]) -> None:
        xp.sum(tiles[:1], axis=1, out=total[:1])

    def use_second(xp, tiles: In[1], total: Out[1:]) -> None:
        xp.sum(tiles[1:], axis=1, out=total[1:])

    def read(total: In) -> None:
        sums.append(total.copy())

    def check(frame: int) -> None:
        assert sums[-1].tolist() == [frame * tile, -frame * tile], (frame, sums[-1])

    return Workload(
        {"tiles": Buffer((2, tile), np.float64), "total": Buffer(2, np.float64)},
        setup=[host(start)],
        frame=[host(fill_first), device(use_first), host(fill_second), device(use_second), host(read)],
        check=check,
    )
