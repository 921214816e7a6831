"""Batches from a PyTorch DataLoader into a small model: what pin_memory and non_blocking are worth.

Source: pytorch/tutorials pinmem_nonblock.py: pin_memory() before each .to(device, non_blocking=True) is up
to twice as slow as .to(device) alone; ppwwyyxx/RAM-multiprocess-dataloader issue 7: pin_memory=True takes
7.31 GB where False takes 4.31. Here `pageable` is a loader without pin_memory, and `pinned` one with
pin_memory and non_blocking whose page-locked memory is used again; pin_memory=true lets the loader pin each
batch by itself, on top of that.
Question: is page-locked memory worth it for this batch and model, and is the loader's own pinning?
Must advise: on a card, page-locked memory where copies are a tenth of the frame or more.
Must not: pin every batch again; count the model's weights, which stay on the device; advise anything if the
loader itself takes longest.
"""

import copy

import numpy as np
from parts.pytorch import torch

from advisor import Buffer, In, Out, Workload, device, host, workload

FEATURES, HIDDEN, CLASSES = 3072, 256, 10


class Samples(torch.utils.data.Dataset):
    """As many samples as one likes; a batch of them is one slice, so that the loader is as fast as memory."""

    def __init__(self, batch: int) -> None:
        column = torch.arange(4 * batch, dtype=torch.float32).remainder(7)
        self.values = column[:, None].repeat(1, FEATURES).share_memory_()

    def __len__(self) -> int:
        return len(self.values) << 20

    def __getitems__(self, indices: list[int]):
        start = indices[0] % len(self.values)
        return self.values[start : start + len(indices)]


def as_it_is(rows):
    return rows


@workload
def dataloader(batch: int = 1024, workers: int = 0, pin_memory: bool = False) -> Workload:
    """Feeds float32 samples of 3072 numbers to a perceptron of two layers."""
    loader = torch.utils.data.DataLoader(
        Samples(batch), batch, num_workers=workers, pin_memory=pin_memory, collate_fn=as_it_is
    )
    batches = iter(loader)
    torch.manual_seed(0)
    layers = torch.nn.Linear(FEATURES, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES)
    on_cpu, models = torch.nn.Sequential(*layers).requires_grad_(False), {}

    def load(images: Out) -> None:
        images.copy_(next(batches))

    def infer(images: In, scores: Out) -> None:
        if scores.device not in models:
            models[scores.device] = copy.deepcopy(on_cpu).to(scores.device)
        scores.copy_(models[scores.device](images))

    def use(scores: In) -> None:
        scores.argmax(axis=1)

    def check(images: In, scores: In) -> None:
        expected = on_cpu(torch.from_numpy(images)).numpy()
        np.testing.assert_allclose(scores, expected, rtol=1e-3, atol=1e-4)

    flops = 2.0 * batch * HIDDEN * (FEATURES + CLASSES)
    return Workload(
        buffers={
            "images": Buffer((batch, FEATURES), np.float32),
            "scores": Buffer((batch, CLASSES), np.float32),
        },
        frame=[host(load, arrays="torch"), device(infer, arrays="torch", flops=flops), host(use)],
        check=check,
    )
