"""Counts moving pixels of a camera, as a user might write it."""
import argparse

import cupy as cp
import numpy as np


class Camera:
    """Gives frames into a buffer that it owns."""

    def __init__(self, height, width):
        rng = np.random.default_rng(1)
        self.clip = rng.integers(0, 255, (8, height, width, 3), dtype=np.uint8)
        self.frame = np.empty((height, width, 3), dtype=np.uint8)
        self.number = 0

    def read(self):
        np.copyto(self.frame, self.clip[self.number % len(self.clip)])
        self.number += 1
        return self.frame


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--height", type=int, default=1080)
    parser.add_argument("--width", type=int, default=1920)
    args = parser.parse_args()
    camera = Camera(args.height, args.width)
    weights = np.array([0.299, 0.587, 0.114], dtype=np.float32)
    background = cp.zeros((args.height, args.width), dtype=cp.float32)
    moving = 0
    for number in range(args.frames):
        frame = camera.read()
        image = cp.asarray(frame)
        gray = image.astype(cp.float32) @ cp.asarray(weights)
        mask = cp.abs(gray - background) > 60
        background = 0.9 * background + 0.1 * gray
        result = cp.asnumpy(mask)
        moving += int(result[::16, ::16].sum())
    print(f"moving pixels: {moving}")


if __name__ == "__main__":
    main()
