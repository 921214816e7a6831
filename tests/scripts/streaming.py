"""Chunks through page-locked buffers on two streams."""

import cupy as cp
import cupyx
import numpy as np

chunk, count = 1 << 14, 6
source = np.random.default_rng(2).standard_normal((count, chunk)).astype(np.float32)
streams = [cp.cuda.Stream(non_blocking=True) for _ in range(2)]
up = [cupyx.empty_pinned(chunk, np.float32) for _ in streams]  # lock alloc_pinned_memory, 2, 131_072
down = [cupyx.zeros_pinned(chunk, np.float32) for _ in streams]  # lock alloc_pinned_memory, 2, 131_072
inbox = [cp.empty(chunk, cp.float32) for _ in streams]
done = [cp.cuda.Event() for _ in streams]
total = 0.0
for i in range(count):
    slot = i % 2
    stream = streams[slot]
    done[slot].synchronize()  # wait Event.synchronize, 6
    total += float(down[slot].sum())
    up[slot][:] = source[i]
    with stream:
        inbox[slot].set(up[slot], stream=stream)  # upload ndarray.set, 6, 393_216, pinned
        result = cp.sqrt(cp.abs(inbox[slot]))
        result.get(stream=stream, out=down[slot], blocking=False)  # download ndarray.get, 6, 393_216, pinned
        done[slot].record(stream)
cp.cuda.Device().synchronize()  # wait Device.synchronize, 1
total += float(down[0].sum()) + float(down[1].sum())
print(f"total {total:.1f}")
