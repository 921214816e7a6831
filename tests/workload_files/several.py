"""Two workloads in one file, one of which takes parameters of every kind."""

from typing import Literal

from advisor import Buffer, In, Out, Workload, device, host, workload


def scaled(n: int, dtype: str, factor: float) -> Workload:
    def produce(a: Out, frame: int) -> None:
        a.fill(frame % 8)

    def scale(xp, a: In, b: Out) -> None:
        xp.multiply(a, a.dtype.type(factor), out=b)

    def consume(b: In) -> None:
        b.sum()

    buffers = {name: Buffer(n, dtype) for name in "ab"}
    return Workload(buffers, [host(produce), device(scale), host(consume)])


@workload
def double(n: int = 64) -> Workload:
    """Twice a vector."""
    return scaled(n, "float32", 2)


@workload
def many(
    n: int,
    dtype: Literal["float32", "float64", "int16"] = "float32",
    factor: float = 2.5,
    negative: bool = False,
    note: str = "",
) -> Workload:
    """A vector times a factor."""
    return scaled(n, dtype, -factor if negative else factor)
