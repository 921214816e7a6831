"""Reading the machine: GPUs through NVML, Jetson boards and hosts through /proc and /sys."""
