"""PyTorch, or what to do where it is missing: `from parts.pytorch import torch`."""

from advisor.errors import WorkloadError

try:
    import torch
except ImportError as problem:
    raise WorkloadError(
        f"this workload needs PyTorch, which cannot be imported: {problem}",
        next_step="pip install 'gpu-memory-advisor[torch]'; a build without CUDA, enough without a GPU, "
        "is at pytorch.org.",
    ) from None

__all__ = ["torch"]
