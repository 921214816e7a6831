"""Code to copy: how each strategy is written for the buffers of a workload. See writing.py."""
