"""A cache, a folder of local files and a web server, for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mlscope.assets.cache import Cache
from mlscope.assets.fetching import Assets
from mlscope.assets.options import AllowedHosts, FetchOptions, RetryPolicy
from tests.mlscope.assets.web_server import Site, serving


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Run a web server that no proxy stands before."""
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    with serving() as site:
        yield site


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """Make an empty cache."""
    return Cache(tmp_path / "cache", 100 << 20)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a folder of local files."""
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def options(site: Site) -> FetchOptions:
    """Try three times, at once."""
    return FetchOptions(
        AllowedHosts(["127.0.0.1"]),
        site.url,
        wait_s=20.0,
        retries=RetryPolicy(3, 20, 0.0, 0.0, 5.0),
    )


@pytest.fixture
def assets(cache: Cache, root: Path, options: FetchOptions) -> Assets:
    """Fetch into the cache."""
    return Assets(cache, root, options=options)
