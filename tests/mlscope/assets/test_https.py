"""Downloads over TLS from a server that cuts: resumed, and only from whom the certificate names."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlscope.assets.addresses import parse
from mlscope.assets.cache import Cache
from mlscope.assets.errors import AssetMissing, DownloadFailed
from mlscope.assets.fetching import Assets
from mlscope.assets.options import AllowedHosts, FetchOptions, RetryPolicy
from tests.mlscope.assets.web_server import Site, certificate_in, serving

BODY = os.urandom(700_000)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Make a certificate and its key, once."""
    made = certificate_in(tmp_path_factory.mktemp("tls"))
    if made is None:
        pytest.skip("NO HTTPS IS TRIED: no openssl here")
    return made


@pytest.fixture
def site(certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Run a server over TLS whose certificate is trusted."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    with serving(certificate) as site:
        yield site


@pytest.fixture
def assets(cache: Cache, root: Path) -> Assets:
    """Try three times, at once."""
    retries = RetryPolicy(3, 20, 0.0, 0.0, 5.0)
    return Assets(cache, root, options=FetchOptions(AllowedHosts(["127.0.0.1"]), retries=retries))


def test_a_cut_download_goes_on_where_it_was(assets: Assets, site: Site) -> None:
    source = parse(site.put("/m", BODY, '"one"'))
    assert source.address.startswith("https://")
    site.cuts = [300_000, 300_000]
    with assets.fetch(source) as held:
        assert held.path.read_bytes() == BODY
    ranges = [headers.get("Range") for _, headers in site.asked]
    assert ranges == [None, "bytes=300000-", "bytes=600000-"]


def test_without_validator_or_checksum_it_starts_over(assets: Assets, site: Site) -> None:
    """Nothing says that the rest would be of the same file."""
    site.cuts = [300_000]
    with assets.fetch(parse(site.put("/m", BODY))) as held:
        assert held.path.read_bytes() == BODY
    assert [headers.get("Range") for _, headers in site.asked] == [None, None]


def test_a_server_nobody_vouches_for_gives_nothing(
    assets: Assets, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = parse(site.put("/m", BODY, '"one"'))
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(DownloadFailed, match="CERTIFICATE_VERIFY_FAILED"):
        assets.fetch(source)
    assert site.asked == []


def test_off_the_encrypted_way_nothing_comes_unchecked(assets: Assets, site: Site) -> None:
    with serving() as plain:
        site.redirects["/m"] = plain.put("/m", BODY)
        with pytest.raises(AssetMissing, match="redirected from https to http"):
            assets.fetch(parse(f"{site.url}/m"))
    assert plain.asked == []
