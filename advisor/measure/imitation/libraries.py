"""Libraries that take NumPy's arrays and refuse CuPy's: without a GPU such a stage works by chance.

What they say of CuPy's arrays they say of the imitation's, which has CuPy's name and no buffer of NumPy's.
"""

from __future__ import annotations

import linecache
import re
import traceback

from advisor.measure.imitation.arrays import DeviceArray
from advisor.measure.imitation.watch import Place, Refused, Watch, is_users

_SIGNS = re.compile(
    r"np\.ndarray|cupy\.ndarray|numpy array|bytes-like object|buffer protocol|__array_interface__|"
    r"non-precise type pyobject",
    re.IGNORECASE,
)
_REMEDIES = {
    "torch": (
        "PyTorch takes NumPy arrays there, not CuPy's",
        'Let the stage have tensors, device(f, arrays="torch"), or use torch.as_tensor(...).',
    ),
    "numba": (
        "Numba compiles this function for the CPU, which cannot take CuPy arrays",
        'Write a kernel with numba.cuda.jit for device(f, arrays="numba"), or make it a host stage.',
    ),
    "cv2": ("OpenCV takes NumPy arrays, not CuPy's", "Make it a host stage, or use CuPy or cv2.cuda."),
}
_OTHER = (
    "it takes NumPy arrays, not CuPy's",
    "Make it a host stage, or use what CuPy and cupyx have; a.get() copies to the host, and waits.",
)


def refused_by_library(error: Exception, watch: Watch) -> Refused | None:
    """What a library says of an array of CuPy's; None for any other error."""
    if not _SIGNS.search(str(error)):
        return None
    frames = [f for f in traceback.walk_tb(error.__traceback__) if is_users(f[0].f_code.co_filename)]
    if not frames:
        return None
    frame, line = frames[-1]
    file = frame.f_code.co_filename
    place = Place(file, line, linecache.getline(file, line).strip())
    home = type(error).__module__.partition(".")[0]
    library = home if home in _REMEDIES else "torch" if "np.ndarray" in str(error) else ""
    why, write = _REMEDIES.get(library, _OTHER)
    owners = (watch.owner(v) for n, v in frame.f_locals.items() if _is_named(n, place.text, v))
    return Refused(f"{why} ({type(error).__name__})", write, place, next(filter(None, owners), ""))


def _is_named(name: str, text: str, value: object) -> bool:
    return isinstance(value, DeviceArray) and re.search(rf"\b{name}\b", text) is not None
