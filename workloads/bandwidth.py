"""Copies a block to the device and back, by kind of host memory, like the classic bandwidthTest.

Source: NVIDIA's CUDA sample bandwidthTest (its successor is NVIDIA/nvbandwidth) and the tables made with it:
2.3 GB/s pageable and 5.8 pinned on an NVS 4200M, 2.2 and 6.4 on a Jetson Nano; CUDA C++ Programming Guide on
write-combined memory: up to 40 % more over PCIe (an H200 showed none). Sweep it (`--sweep
nbytes=2**12..2**28:8 --strategy pageable --strategy pinned --strategy write-combined`) and read the rates off
the parts `to-device` and `to-host`, not off the frame, which includes the host's own passes.
Question: at which rate do copies from each kind of host memory run, and from which size on does the kind
matter?
Must advise: on a card, leave pageable memory (pageable-transfer).
Must not: promise the ratio of the copies' rates for the whole frame; warn of re-reads; prefer write-combined
memory where its copies are not faster.
"""

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, workload


@workload
def bandwidth(nbytes: int = 1 << 26) -> Workload:
    """Sends nbytes to the device, copies them there and fetches them back."""

    def fill(up: Out, frame: int) -> None:
        up.fill(frame % 256)

    def pass_on(xp, up: In, down: Out) -> None:
        xp.add(up, 0, out=down)  # a kernel; CuPy's copyto is a copy engine's work

    def read(down: In) -> None:
        down.max()

    def check(down: In, frame: int) -> None:
        np.testing.assert_array_equal(down, np.uint8(frame % 256))

    return Workload(
        buffers={name: Buffer(nbytes, np.uint8) for name in ("up", "down")},
        frame=[host(fill), device(pass_on), host(read)],
        check=check,
    )
