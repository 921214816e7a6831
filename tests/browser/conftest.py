"""One browser for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from browser.browsing import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Closed before tests of other files, where its event loop would be in the way of Dask's."""
    with chromium() as started:
        yield started
