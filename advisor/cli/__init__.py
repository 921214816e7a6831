"""The command line: options, exit codes, what goes to stdout and what to stderr. See app.py."""
