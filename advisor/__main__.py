"""`python -m advisor`, and what the command `advisor` calls."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from advisor.errors import INTERRUPTED

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # While the program is loaded there is nothing to keep, and no traceback to show. `main` takes it over.
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))


def main() -> NoReturn:
    """Loads the program and runs it."""
    from advisor.cli import app

    app.main()


if __name__ == "__main__":
    main()
