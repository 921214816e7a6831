"""Loops that the host ends: k-means, a solver whose flag the GPU makes, and two loops in one frame."""

from inspect import Parameter, Signature, signature

import numpy as np

from advisor import Buffer, In, InOut, Out, Workload, device, host, repeat, workload


def kernel(function):
    """A device stage: on the tests' stand-in for a GPU a raw kernel, on the CPU the function itself."""

    def launched(xp, **arrays):
        xp.launch(function, *arrays.values())

    launched.__name__ = function.__name__
    takes_xp = Parameter("xp", Parameter.POSITIONAL_OR_KEYWORD)
    launched.__signature__ = Signature([takes_xp, *signature(function).parameters.values()])
    return device(launched, cpu=function)


@workload
def kmeans(n: int = 512, k: int = 4, at_most: int = 40) -> Workload:
    """The host moves the centres and sees when they stand still."""

    def produce(points: Out, centres: Out, frame: int) -> None:
        rng = np.random.default_rng(frame)
        points[...] = rng.normal(size=points.shape) + rng.integers(0, 3, (n, 1)) * 4
        centres[...] = points[:k]

    def assign(points: In, centres: In, sums: Out, counts: Out) -> None:
        distances = ((points[:, None, :] - centres[None]) ** 2).sum(axis=2)
        nearest = distances.argmin(axis=1)[:, None] == np.arange(k)
        sums[...] = nearest.astype(points.dtype).T @ points
        counts[...] = nearest.sum(axis=0)

    def move(sums: In, counts: In, centres: InOut, done: Out) -> None:
        moved = sums / np.maximum(counts, 1)[:, None]
        done[0] = np.abs(moved - centres).max() < 1e-6
        centres[...] = moved

    def publish(centres: In) -> None:
        assert np.isfinite(centres).all()

    def check(centres: In, done: In, frame: int) -> None:
        rng = np.random.default_rng(frame)
        points = rng.normal(size=(n, 2)) + rng.integers(0, 3, (n, 1)) * 4
        expected = points[:k]
        for _ in range(at_most):
            nearest = ((points[:, None] - expected) ** 2).sum(axis=2).argmin(axis=1)
            moved = np.array(
                [points[nearest == i].sum(axis=0) / max((nearest == i).sum(), 1) for i in range(k)]
            )
            still, expected = np.abs(moved - expected).max() < 1e-6, moved
            if still:
                break
        assert np.allclose(centres, expected)
        assert bool(done[0]) == still

    return Workload(
        buffers={
            "points": Buffer((n, 2), np.float64),
            "centres": Buffer((k, 2), np.float64),
            "sums": Buffer((k, 2), np.float64),
            "counts": Buffer(k, np.float64),
            "done": Buffer(1, np.bool_),
        },
        frame=[
            host(produce),
            repeat([kernel(assign), host(move)], until="done", at_most=at_most),
            host(publish),
        ],
        check=check,
    )


@workload
def jacobi(n: int = 64, tolerance: float = 1e-3, at_most: int = 500) -> Workload:
    """All on the GPU, but for the flag that ends it; warm: each frame begins where the last one ended."""
    matrix = np.random.default_rng(1).random((n, n)) / n + np.diag(np.full(n, 2.0))

    def load(a: Out, x: Out) -> None:
        a[...] = matrix
        x[...] = 0

    def produce(b: Out, frame: int) -> None:
        b[...] = np.random.default_rng(frame).random(n)

    def sweep(a: In, b: In, x: InOut, small: Out) -> None:
        residual = b - a @ x
        x += residual / np.diagonal(a)
        small[...] = np.abs(residual).max() < tolerance

    def publish(x: In) -> None:
        float(x.sum())

    def check(x: In, b: In) -> None:
        assert at_most < 100 or np.abs(b - matrix @ x).max() < 2 * tolerance

    return Workload(
        buffers={
            "a": Buffer((n, n), np.float64),
            "b": Buffer(n, np.float64),
            "x": Buffer(n, np.float64),
            "small": Buffer(1, np.int32),
        },
        setup=[host(load)],
        frame=[host(produce), repeat([kernel(sweep)], until="small", at_most=at_most), host(publish)],
        check=check,
    )


@workload
def two_loops(n: int = 16) -> Workload:
    """Frame i counts to i % 3 + 1 on the CPU, then halves on the GPU until the host is content."""

    def produce(x: Out, steps: Out, frame: int) -> None:
        x[...] = 2.0 ** (frame % 5)
        steps[0] = 0

    def count(steps: InOut, counted: Out, frame: int) -> None:
        steps[0] += 1
        counted[0] = steps[0] > frame % 3

    def halve(x: InOut) -> None:
        x *= 0.5

    def look(x: In, low: Out) -> None:
        low[0] = x[0] < 1

    def check(x: In, steps: In, frame: int) -> None:
        assert steps[0] == frame % 3 + 1
        assert np.all(x == 0.5), x

    return Workload(
        buffers={
            "x": Buffer(n, np.float64),
            "steps": Buffer(1, np.int64),
            "counted": Buffer(1, np.bool_),
            "low": Buffer((1, 1), np.float32),
        },
        frame=[
            host(produce),
            repeat([host(count)], until="counted", at_most=100),
            repeat([kernel(halve), host(look)], until="low", at_most=100),
        ],
        check=check,
    )
