"""A conjugate gradient with dot products on the host: CPU and GPU alternate on the same arrays.

Source: the usual first port of a solver, its matrix product on the GPU and its scalars on the CPU;
dnhkng.github.io on GH200, 2026-04-25: managed memory that both sides touch in turn moves at 18 to 29 GB/s;
NVIDIA's CUDA for Tegra application note: on one DRAM such turns need no copy at all. Solves for the
five-point Laplacian of a grid; restarts every `restart` frames.
Question: is it better to copy `p`, `q` and `residual` at each turn, or to share them?
Must advise: on a Jetson, drop the copies.
Must not: call overlapping frames possible (each needs the previous one); advise managed memory that migrates
at each turn over pinned copies on a card.
"""

import numpy as np

from advisor import Buffer, In, InOut, Out, Workload, device, host, workload

INNER, FIRST, LAST = slice(None), slice(None, -1), slice(1, None)
NEIGHBOURS = ((FIRST, LAST), (LAST, FIRST), ((INNER, FIRST), (INNER, LAST)), ((INNER, LAST), (INNER, FIRST)))


def laplacian(xp, x, product) -> None:
    xp.multiply(x, 4, out=product)
    for here, there in NEIGHBOURS:
        xp.subtract(product[here], x[there], out=product[here])


@workload
def solver_turns(n: int = 1024, restart: int = 32) -> Workload:
    """One iteration of a conjugate gradient on an n by n grid of float32; the host does the dot products."""
    right_side = np.resize(np.array([1, -2, 3], np.float32), (n, n))
    right_sides: dict = {}

    def begin(x: Out, residual: Out, p: Out) -> None:
        x.fill(0)
        residual[...] = right_side
        p[...] = right_side

    def apply(xp, p: In, q: Out) -> None:
        laplacian(xp, p, q)

    def reduce(p: In, q: In, residual: In, scalars: Out) -> None:
        squares = np.vdot(residual, residual)
        scalars[:] = squares / np.vdot(p, q), squares

    def advance(xp, scalars: In, p: In, q: In, x: InOut, residual: InOut, frame: int) -> None:
        if frame % restart:
            x += scalars[0] * p
            residual -= scalars[0] * q
        else:
            x.fill(0)
            if xp not in right_sides:
                right_sides[xp] = xp.asarray(right_side)
            residual[...] = right_sides[xp]

    def turn(residual: In, scalars: In, p: InOut, frame: int) -> None:
        p *= np.vdot(residual, residual) / scalars[1] if frame % restart else np.float32(0)
        p += residual

    def check(x: In, residual: In) -> None:
        product = np.empty_like(x)
        laplacian(np, x, product)
        np.testing.assert_allclose(product + residual, right_side, atol=1e-2)

    arrays = {name: Buffer((n, n), np.float32) for name in ("p", "q", "residual", "x")}
    return Workload(
        buffers={**arrays, "scalars": Buffer(2, np.float32)},
        setup=[host(begin)],
        frame=[device(apply), host(reduce), device(advance), host(turn)],
        check=check,
    )
