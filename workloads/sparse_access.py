"""A large table; each frame touches a few rows: migrate the touched rows, or copy everything?

Source: EMOGI (PVLDB 14(2), 2020): a graph traversed in place, over the link, 2.92 times faster than with
migrating pages; ObservUVM: managed memory migrates 64 KB at a time. So rows have 64 KB here: exactly the
touched rows migrate. The host owns the table and changes the rows that the next kernel reads, so explicit
copies move all of it.
Question: below which share of touched rows is sharing faster than copying?
Must advise: zero-copy, or managed memory, instead of copies of the whole table, pinned or not.
Must not: warn of re-reads; advise pinned memory for copies that should be avoided; advise the same for
`share=1`.
"""

import numpy as np

from advisor import Buffer, In, InOut, Out, Workload, device, host, workload

ROW = 16384
"""float32 numbers in 64 KB."""
SETS = 8


@workload
def sparse_access(rows: int = 1024, share: float = 0.02) -> Workload:
    """Changes a share of a table's rows on the host, then sums these rows on the device."""
    count = min(max(round(share * rows), 1), rows)
    picks = [
        np.sort(np.random.default_rng(s).permutation(rows)[:count]).astype(np.int64) for s in range(SETS)
    ]

    def load(table: Out) -> None:
        table.fill(0)

    def change(table: InOut, touched: Out, frame: int) -> None:
        np.copyto(touched, picks[frame % SETS])
        for row in picks[frame % SETS]:
            table[row] += frame % 100 - table[row, 0]  # all numbers of a row are the same

    def add_up(xp, table: In, touched: In, sums: Out) -> None:
        xp.sum(xp.take(table, touched, axis=0), axis=1, out=sums)

    def consume(sums: In) -> None:
        sums.max()

    def check(sums: In, frame: int) -> None:
        np.testing.assert_allclose(sums, np.float32(frame % 100 * ROW), rtol=1e-5)

    return Workload(
        buffers={
            "table": Buffer((rows, ROW), np.float32),
            "touched": Buffer(count, np.int64),
            "sums": Buffer(count, np.float32),
        },
        setup=[host(load)],
        frame=[host(change), device(add_up), host(consume)],
        check=check,
    )
