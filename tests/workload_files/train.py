"""A script as CuPy users write them; it knows nothing of advisor, unless --keep asks for `advisor.result`."""

import argparse
import os
import sys

import cupy
import numpy as np
from cupyx.profiler import time_range

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, required=True)
parser.add_argument("--act", default="")
parser.add_argument("--keep", action="store_true")
options = parser.parse_args()


def act():
    """What makes trouble, in the middle of the work."""
    if options.act == "fail":
        raise ValueError("no such data")
    if options.act == "exit":
        sys.exit(3)
    if options.act == "_exit":
        os._exit(0)
    if options.act == "fork":
        child = os.fork()
        if child == 0:
            sys.exit(5)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != 5:
            sys.exit("the child ended in another way than it asked for")
    if options.act == "allocator":
        cupy.cuda.set_allocator(cupy.cuda.MemoryPool().malloc)
    if options.act == "random":
        print(np.random.default_rng().random())
    if options.act == "differ":
        print("memory:", cupy.asarray([0.0]).memory.kind)


weights = cupy.asarray(np.ones(1000, np.float32))
for _ in range(options.epochs):
    with time_range("epoch"):
        weights = weights + 1
act()
host = weights.get()
if options.keep:
    import advisor

    advisor.result(weights, "the weights")
print(f"sum {host.sum():.1f}")
