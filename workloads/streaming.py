"""Camera frames that arrive in the driver's memory, new each time: lowest latency, or most frames?

Source: CUDA C++ Best Practices Guide, "Asynchronous and Overlapping Transfers with Computation"; and the talk
NVIDIA GTC 2022 SE2600, whose users ask why `np.copyto(managed, image)` gains them nothing: the copy out of
the camera's memory remains, wherever it goes. It is counted here: `image` is external.
Question: how much time remains when a copy in, an upload, kernels and a download overlap?
Must advise: on a card, overlap (pinned-pipelined) for the most frames per second, where host, copies and
kernels take similar times; for the lowest latency, register the camera's own memory.
Must not: say that managed or zero-copy memory removes the host's copy of an external buffer; hide that an
overlapped frame's latency is not shorter.
"""

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, workload


@workload
def streaming(width: int = 1920, height: int = 1080, level: int = 20) -> Workload:
    """Marks the pixels of an 8 bit camera image that differ from a background by more than `level`."""
    shape = (height, width)
    background_image = np.resize(np.arange(200, dtype=np.uint8), shape)
    # Two images of the scene: the second one has an object in its upper half.
    scene = np.stack([background_image, background_image])
    scene[1, : height // 2] += 50
    truth = np.abs(scene.astype(np.int16) - background_image) > level

    def learn(background: Out) -> None:
        np.copyto(background, background_image)

    def capture(image: Out, frame: int) -> None:
        np.copyto(image, scene[frame % 2])

    def compare(xp, image: In, background: In, change: Out, mask: Out) -> None:
        xp.subtract(image, background, out=change, dtype=np.int16)
        xp.absolute(change, out=change)
        xp.greater(change, level, out=mask)

    def show(mask: In) -> None:
        mask.any()

    def check(mask: In, frame: int) -> None:
        np.testing.assert_array_equal(mask, truth[frame % 2])

    return Workload(
        buffers={
            "image": Buffer(shape, np.uint8, external=True),
            "background": Buffer(shape, np.uint8),
            "change": Buffer(shape, np.int16, scratch=True),
            "mask": Buffer(shape, np.bool_),
        },
        setup=[host(learn)],
        frame=[host(capture), device(compare), host(show)],
        check=check,
    )
