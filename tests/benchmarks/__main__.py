"""`make bench`: what the program itself costs, each figure beside its goal."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from advisor.errors import AdvisorError
from tests.benchmarks import costs, exports, fleets, frame_loop, gpu, recording, versions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="store_true", help="on a CUDA GPU")
    parser.add_argument("parts", nargs="*", help="these alone; without --gpu: versions, which takes an hour")
    parser.add_argument("--runs", type=int, default=20, help="of each planted change, for versions")
    parser.add_argument("--reports", type=Path, default=Path("reports/h200"), help="where its profiles go")
    arguments = parser.parse_args()
    if arguments.parts == ["versions"]:
        for line in versions.run(arguments.runs, no_gpu=not arguments.gpu):
            print(line, flush=True)
    elif arguments.gpu:
        gpu.run(arguments.reports, arguments.parts)
    else:
        frame_loop.run("cpu")
        recording.run()
        costs.run()
        exports.run()
        fleets.run()


try:
    main()
except AdvisorError as error:
    sys.exit(f"{error.message}\n  next: {error.next_step}")
