"""Classifies a batch of images with a small convolutional network: the talk's second example.

Source: NVIDIA GTC 2022, SE2600 (JetsonUnifiedMemory, tensorrt_inference): a network for Fashion MNIST run by
TensorRT from page-locked, managed and explicitly copied memory. Runs in ONNX Runtime where it is installed
(extra `onnx`; on a GPU with its CUDA provider, or TensorRT's with engine=tensorrt), which is given the
buffers' addresses and copies nothing; else, or with engine=arrays, in CuPy. The file makes its own weights.
On the CPU: ONNX Runtime or NumPy.
Question: how much do the copies of a batch matter next to the network, and do weights in shared memory cost
time?
Must advise: on a Jetson, drop the copies of `images`.
Must not: count the weights, which are uploaded once, into a steady frame; advise anything for `labels`, of 8
bytes an image.
"""

import numpy as np
from parts import onnx_engine

from advisor import Buffer, In, Out, Workload, device, host, workload

SHAPES = {"first": (16, 1, 3, 3), "second": (32, 16, 3, 3), "dense": (32 * 6 * 6, 10)}
SIDE, CLASSES = 28, 10


@workload
def inference(batch: int = 1024, engine: str = "auto") -> Workload:
    """Labels float32 images of 28 by 28 pixels; engine is auto, onnxruntime, tensorrt or arrays."""
    rng = np.random.default_rng(1)
    known = {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in SHAPES.items()}
    classes = rng.random((CLASSES, 1, SIDE, SIDE), np.float32)
    truth = np.argmax(scores(np, classes, **known), axis=1)
    shapes = {"images": (batch, 1, SIDE, SIDE), **SHAPES}
    album = np.resize(classes, (batch + CLASSES, 1, SIDE, SIDE))
    sessions: dict = {}

    def load(first: Out, second: Out, dense: Out) -> None:
        for name, array in (("first", first), ("second", second), ("dense", dense)):
            array[...] = known[name]

    def receive(images: Out, frame: int) -> None:
        start = frame % CLASSES
        np.copyto(images, album[start : start + batch])

    def classify(xp, images: In, first: In, second: In, dense: In, labels: Out, stream) -> None:
        if xp not in sessions:
            sessions[xp] = onnx_engine.open_session(engine, None if xp is np else stream, shapes)
        if sessions[xp] is None:
            labels[...] = xp.argmax(scores(xp, images, first, second, dense), axis=1)
        else:
            onnx_engine.run(sessions[xp], labels, images=images, first=first, second=second, dense=dense)

    def use(labels: In) -> None:
        labels.max()

    def check(labels: In, frame: int) -> None:
        np.testing.assert_array_equal(labels, np.resize(np.roll(truth, -(frame % CLASSES)), batch))

    flops = 2.0 * batch * (16 * 13 * 13 * 9 + 32 * 6 * 6 * 16 * 9 + 32 * 6 * 6 * 10)
    return Workload(
        buffers={
            **{name: Buffer(shape, np.float32) for name, shape in shapes.items()},
            "labels": Buffer(batch, np.int64),
        },
        setup=[host(load)],
        frame=[host(receive), device(classify, flops=flops), host(use)],
        check=check,
    )


def scores(xp, images, first, second, dense):
    """Two convolutions of stride 2, each followed by a ReLU, and a dense layer: (batch, classes)."""
    for kernel in (first, second):
        size = (images.shape[2] - 3) // 2 + 1
        taps = [images[:, :, i : i + 2 * size : 2, j : j + 2 * size : 2] for i in range(3) for j in range(3)]
        columns = xp.stack([tap[:, :, :size, :size] for tap in taps], axis=2)
        product = xp.matmul(kernel.reshape(len(kernel), -1), columns.reshape(len(images), -1, size * size))
        images = xp.maximum(product, 0).reshape(len(images), len(kernel), size, size)
    return xp.matmul(images.reshape(len(images), -1), dense)
