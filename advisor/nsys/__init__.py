"""Nsight Systems: running it, reading what it exports, and trace event files."""
