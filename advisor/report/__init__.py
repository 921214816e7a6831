"""Profiles as HTML, Markdown, JSON and text for the terminal: pure functions of the data. See pages.py."""
