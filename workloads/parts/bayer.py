"""The CPU twins of debayer_resize.py: OpenCV's own code where it is installed, else NumPy."""

import numpy as np

try:
    import cv2
except ImportError:
    cv2 = None


def debayer(raw, rgb) -> None:
    """Bilinear, of an RGGB mosaic, which OpenCV calls BG; in NumPy by the same formulas."""
    if cv2 is not None:
        cv2.cvtColor(np.asarray(raw), cv2.COLOR_BayerBG2RGB, dst=np.asarray(rgb))
        return
    p = np.asarray(raw).astype(np.uint16)
    own, beside, above = p[1:-1, 1:-1], p[1:-1, :-2] + p[1:-1, 2:], p[:-2, 1:-1] + p[2:, 1:-1]
    across = (p[:-2, :-2] + p[:-2, 2:] + p[2:, :-2] + p[2:, 2:] + 2) >> 2
    cross, beside, above = (beside + above + 2) >> 2, (beside + 1) >> 1, (above + 1) >> 1
    sites = [(across, cross, own), (above, own, beside), (beside, own, above), (own, cross, across)]
    for number, planes in enumerate(sites):  # of the inner pixels: blue, the greens beside it and below, red
        for k, plane in enumerate(planes):
            rgb[1 + number // 2 : -1 : 2, 1 + number % 2 : -1 : 2, k] = plane[
                number // 2 :: 2, number % 2 :: 2
            ]
    rgb[0], rgb[-1] = rgb[1], rgb[-2]
    rgb[:, 0], rgb[:, -1] = rgb[:, 1], rgb[:, -2]


def resize(rgb, small) -> None:
    """Bilinear, with pixel centres at halves."""
    height, width = small.shape[:2]
    if cv2 is not None:
        cv2.resize(np.asarray(rgb), (width, height), dst=np.asarray(small), interpolation=cv2.INTER_LINEAR)
        return
    axes = []
    for length, whole in ((height, rgb.shape[0]), (width, rgb.shape[1])):
        at = np.clip((np.arange(length) + 0.5) * whole / length - 0.5, 0, whole - 1)
        low = at.astype(int)
        axes.append((low, np.minimum(low + 1, whole - 1), at - low))
    (top, bottom, down), (left, right, along) = axes
    along, down = along[None, :, None], down[:, None, None]
    over, under = (rgb[rows][:, left] * (1 - along) + rgb[rows][:, right] * along for rows in (top, bottom))
    small[...] = over * (1 - down) + under * down + 0.5
