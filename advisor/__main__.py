"""`python -m advisor`, and what the command `advisor` calls."""

import os
import signal
import sys

INTERRUPTED = 130
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # While the program is loaded there is nothing to keep, and no traceback to show. `main` takes it over.
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
if __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    sys.path.pop(0)  # the working directory, where modules of the user's would hide others


def main() -> None:
    """Loads the program and runs it; does not return."""
    from advisor.cli import startup

    startup.prepare()
    wrong, step = startup.obstacle()
    if wrong:
        startup.leave(wrong, step, 4)
    try:
        from advisor.cli import app
    except Exception:
        startup.leave_if_hidden()
        raise
    app.main()


if __name__ == "__main__":
    main()
