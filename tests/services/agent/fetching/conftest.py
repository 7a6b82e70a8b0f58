"""A web server that agents fetch files from."""

from collections.abc import Iterator

import pytest

from tests.mlscope.assets.web_server import Site, serving


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Run a web server that no proxy stands before."""
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    with serving() as site:
        yield site
