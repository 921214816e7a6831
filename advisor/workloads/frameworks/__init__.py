"""Buffers as the arrays of other libraries: PyTorch tensors, Numba arrays, addresses, DLPack. No copy."""
