"""Batches from another process through torch.multiprocessing: does page-locked memory survive?

Source: pytorch issue 78018: pin_memory() followed by share_memory_() gives a tensor that is not pinned;
"pinned and pageable memory in PyTorch" (2024-08-17): 1.05 s pageable against 0.013 s pinned, 81 times,
between two processes of which the first made the CUDA context inside its first timed transfer; with the
context made before, 1.01 times. Here contexts, imports and first transfers are set-up, and a frame receives
a tensor and copies it to memory of its own. Compare with pin_first=true (needs a GPU), where the sender's
tensors were pinned before they were shared.
Question: what does page-locked memory gain for a consumer of tensors from another process?
Must advise: pin once, in the process that copies to the device, if its copies take a relevant share.
Must not: report a gain that is only set-up; expect pin_first to change a frame; treat received tensors as
pinned.
"""

import warnings

import numpy as np
from parts.pytorch import torch

from advisor import Buffer, In, Out, Workload, device, host, workload
from advisor.errors import WorkloadError


@workload
def pinned_across_processes(n: int = 1 << 22, pin_first: bool = False) -> Workload:
    """Receives n float32 numbers a frame from a child process and doubles them on the device."""
    if pin_first and not torch.cuda.is_available():
        raise WorkloadError(
            "pin_first=true, but this PyTorch sees no GPU to pin memory for",
            next_step="Leave it out, or install PyTorch with CUDA.",
        )
    made = [torch.zeros(n) for _ in range(2)]
    shared = [(tensor.pin_memory() if pin_first else tensor).share_memory_() for tensor in made]
    ours, theirs = torch.multiprocessing.Pipe()

    def produce() -> None:
        """The child's life: it fills the tensor that is asked for and sends it, until the parent is gone."""
        ours.close()
        torch.set_num_threads(1)  # a forked process has none of its parent's threads
        try:
            while True:
                frame = theirs.recv()
                theirs.send(shared[frame % 2].fill_(frame % 100))
        except EOFError:
            return

    def start() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the child uses none of this process's threads
            torch.multiprocessing.get_context("fork").Process(target=produce, daemon=True).start()
        theirs.close()

    def receive(batch: Out, frame: int) -> None:
        ours.send(frame)
        batch.copy_(ours.recv())

    def double(batch: In, result: Out) -> None:
        torch.mul(batch, 2, out=result)

    def use(result: In) -> None:
        result.max()

    def check(result: In, frame: int) -> None:
        np.testing.assert_array_equal(result, np.float32(2 * (frame % 100)))

    return Workload(
        buffers={name: Buffer(n, np.float32) for name in ("batch", "result")},
        setup=[host(start)],
        frame=[host(receive, arrays="torch"), device(double, arrays="torch", flops=float(n)), host(use)],
        check=check,
    )
