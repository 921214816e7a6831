"""A recommendation model: sparse look-ups in a table that the host updates, then dense layers.

Source: Naumov et al., "Deep Learning Recommendation Model" (arXiv 1906.00091): embedding tables larger than
what a batch touches, then layers that re-read their weights; EMOGI (PVLDB 14(2), 2020) for gathers over the
link.
Question: which placement does each buffer need, and what does one placement for all cost?
Must advise: on a card, a mix: the table in zero-copy memory, so that only the rows that a frame looks up
cross the link, and the weights in the card's own memory.
Must not: copy the table in each frame; leave the weights in zero-copy memory on a card.
"""

import numpy as np

from advisor import Buffer, In, InOut, Out, Workload, device, host, workload

LOOKUPS, WIDTH = 16, 64
"""Rows of the table for each sample, and numbers in a row."""


@workload
def embedding_lookup(rows: int = 1 << 19, batch: int = 64, hidden: int = 4096, updates: int = 64) -> Workload:
    """Updates rows of a table, gathers others of it, and passes them through two dense layers."""
    inputs = LOOKUPS * WIDTH

    def load(table: Out, first: Out, second: Out) -> None:
        table[...] = (np.arange(rows, dtype=np.float32) % 7)[:, None]
        first.fill(1 / inputs)
        second.fill(1 / hidden)

    def request(table: InOut, ids: Out, frame: int) -> None:
        begin = frame * updates % (rows - updates + 1)
        table[begin : begin + updates] = frame % 11
        np.copyto(ids, (np.arange(ids.size) * 7919 + frame * 104729) % rows)

    def gather(xp, table: In, ids: In, features: Out) -> None:
        features[...] = xp.take(table, ids, axis=0).reshape(batch, inputs)

    def dense(xp, features: In, first: In, second: In, scores: Out) -> None:
        layer = xp.maximum(xp.matmul(features, first), 0)
        xp.mean(xp.maximum(xp.matmul(layer, second), 0), axis=1, out=scores)

    def rank(scores: In) -> None:
        scores.argmax()

    def check(table: In, ids: In, scores: In) -> None:
        expected = table[ids].reshape(batch, inputs).mean(axis=1)
        np.testing.assert_allclose(scores, expected, rtol=1e-3)

    return Workload(
        buffers={
            "table": Buffer((rows, WIDTH), np.float32),
            "ids": Buffer(batch * LOOKUPS, np.int64),
            "features": Buffer((batch, inputs), np.float32, scratch=True),
            "first": Buffer((inputs, hidden), np.float32),
            "second": Buffer((hidden, hidden), np.float32),
            "scores": Buffer(batch, np.float32),
        },
        setup=[host(load)],
        frame=[host(request), device(gather), device(dense), host(rank)],
        check=check,
    )
