"""`make bench`: what the program itself costs, each figure beside its goal."""

from __future__ import annotations

import argparse

from tests.benchmarks import commands, frame_loop, prediction


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="store_true", help="on a CUDA GPU")
    if parser.parse_args().gpu:
        frame_loop.run("cuda")
    else:
        frame_loop.run("cpu")
        prediction.run()
        commands.run()


main()
