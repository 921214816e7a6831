"""Raw CUDA kernels from a .cu file or a string: `advisor.kernel("scale.cu", "scale")`."""
