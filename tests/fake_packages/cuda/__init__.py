"""In place of NVIDIA's package of that name, where it is installed: a CUDA without bindings."""
