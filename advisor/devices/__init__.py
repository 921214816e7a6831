"""Devices: attributes, memory classes, the catalogue; and what this machine says of itself."""
