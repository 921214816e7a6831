"""Workloads: the API a user writes with, and how a file becomes stages bound to buffers."""
