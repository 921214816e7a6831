"""Nsight Systems: running it, and reading what it exports."""
