"""Downloads against a real server that cuts, lies, redirects and changes its files."""

import errno
import hashlib
import io
import re
import secrets
import shutil
import socket
import urllib.request
from http.client import HTTPMessage
from pathlib import Path

import pytest

from mlscope.assets.addresses import HttpSource, HubSource, parse
from mlscope.assets.cache import Cache
from mlscope.assets.checksums import Checksum
from mlscope.assets.errors import (
    AssetMissing,
    AssetTooLarge,
    ChecksumMismatch,
    ChecksumNeeded,
    DownloadFailed,
    HubFileChanged,
    SourceUnset,
)
from mlscope.assets.fetching import Assets
from mlscope.assets.options import FetchOptions
from mlscope.assets.partial import Partial
from mlscope.assets.web.downloads import NotModified, Remote, Web, _Redirects
from mlscope.assets.web.resuming import Origin
from tests.mlscope.assets.web_server import Site

BODY = secrets.token_bytes(900_000)
WRONG = BODY[:-1] + bytes([BODY[-1] ^ 1])
SUM = Checksum("sha256", hashlib.sha256(BODY).hexdigest())
MD5 = Checksum("md5", hashlib.md5(BODY).hexdigest())
PREFIX = Checksum("sha256-prefix", SUM.digest[:8])


def left(cache: Cache, tmp_path: Path) -> list[str]:
    """Return the names of partial files."""
    return [path.name for path in (tmp_path / "cache" / "partial").iterdir()]


@pytest.mark.parametrize("checksum", [SUM, MD5])
def test_a_file_is_fetched_once(assets: Assets, site: Site, checksum: Checksum) -> None:
    source = parse(site.put("/m.onnx", BODY))
    steps: list[tuple[int, int | None]] = []
    for _ in range(2):
        with assets.fetch(source, checksum, progress=lambda *at: steps.append(at)) as held:
            assert held.path.read_bytes() == BODY
            assert held.sha256 == SUM.digest
    assert len(site.asked) == 1
    assert steps[0] == (0, len(BODY))
    assert steps[-1] == (len(BODY), len(BODY))


def test_some_digits_of_a_checksum_hold_for_one_address(assets: Assets, site: Site) -> None:
    site.put("/o/r/resolve/main/one", BODY)
    site.put("/o/r/resolve/main/other", BODY[1:])
    one, other = (HubSource("o/r", "main", name) for name in ("one", "other"))
    for _ in range(2):
        with assets.fetch(one, PREFIX) as held:
            assert held.sha256 == SUM.digest
    assert len(site.asked) == 1
    with pytest.raises(ChecksumMismatch):
        assets.fetch(other, PREFIX)


@pytest.mark.parametrize("etag", ['"one"', ""])
def test_a_cut_download_goes_on_where_it_was(assets: Assets, site: Site, etag: str) -> None:
    source = parse(site.put("/m", BODY, etag))
    site.cuts = [300_000, 300_000]
    with assets.fetch(source, SUM) as held:
        assert held.path.read_bytes() == BODY
    ranges = [headers.get("Range") for _, headers in site.asked]
    assert ranges == [None, "bytes=300000-", "bytes=600000-"]
    assert site.asked[1][1].get("If-Range", "") == etag


def test_a_download_that_gets_on_is_not_given_up(assets: Assets, site: Site) -> None:
    source = parse(site.put("/m", BODY, '"one"'))
    site.cuts = [200_000] * 4
    with assets.fetch(source, SUM) as held:
        assert held.path.read_bytes() == BODY


def test_a_later_process_goes_on_too(
    assets: Assets, site: Site, cache: Cache, root: Path, options: FetchOptions
) -> None:
    source = parse(site.put("/m", BODY, '"one"'))
    site.cuts = [500_000, 0, 0, 0]
    with pytest.raises(DownloadFailed, match="cut after 500000 of 900000 bytes"):
        assets.fetch(source, SUM)
    with Assets(cache, root, options=options).fetch(source, SUM) as held:
        assert held.path.read_bytes() == BODY
    assert site.asked[-1][1]["Range"] == "bytes=500000-"


@pytest.mark.parametrize("minds", [True, False])
def test_a_file_that_changed_is_fetched_whole(assets: Assets, site: Site, minds: bool) -> None:
    source = parse(site.put("/m", bytes(800_000), '"old"'))
    site.minds_if_range = minds
    site.cuts = [500_000, 0, 0, 0]
    with pytest.raises(DownloadFailed):
        assets.fetch(source, SUM)
    site.put("/m", BODY, '"new"')
    with assets.fetch(source, SUM) as held:
        assert held.path.read_bytes() == BODY


def test_a_server_without_ranges_starts_over(assets: Assets, site: Site) -> None:
    source = parse(site.put("/m", BODY, '"one"'))
    site.takes_ranges = False
    site.cuts = [500_000]
    with assets.fetch(source, SUM) as held:
        assert held.path.read_bytes() == BODY


def test_a_bad_remainder_of_an_earlier_try_is_no_end(
    assets: Assets, site: Site, tmp_path: Path
) -> None:
    source = parse(site.put("/m", BODY, '"one"'))
    site.cuts = [500_000, 0, 0, 0]
    with pytest.raises(DownloadFailed):
        assets.fetch(source, SUM)
    partial = next(p for p in (tmp_path / "cache/partial").iterdir() if not p.suffix)
    partial.write_bytes(bytes(500_000))
    with assets.fetch(source, SUM) as held:
        assert held.path.read_bytes() == BODY


def test_a_download_that_was_complete_is_not_repeated(
    assets: Assets, site: Site, tmp_path: Path
) -> None:
    source = parse(site.put("/m", BODY, '"one"'))
    site.cuts = [899_999, 0, 0, 0]
    with pytest.raises(DownloadFailed):
        assets.fetch(source, SUM)
    partial = next(p for p in (tmp_path / "cache/partial").iterdir() if not p.suffix)
    partial.write_bytes(BODY)
    asked = len(site.asked)
    with assets.fetch(source, SUM) as held:
        assert held.path.stat().st_size == len(BODY)
    assert [headers["Range"] for _, headers in site.asked[asked:]] == ["bytes=900000-"]


@pytest.mark.parametrize("checksum", [SUM, MD5])
def test_a_wrong_file_is_removed(
    assets: Assets, site: Site, cache: Cache, tmp_path: Path, checksum: Checksum
) -> None:
    source = parse(site.put("/m", WRONG))
    with pytest.raises(ChecksumMismatch) as error:
        assets.fetch(source, checksum)
    assert error.value.expected == checksum.digest
    assert error.value.actual == hashlib.new(checksum.algorithm, WRONG).hexdigest()
    assert left(cache, tmp_path) == []
    assert cache.used_bytes() == 0


def test_passing_faults_are_waited_out(assets: Assets, site: Site) -> None:
    source = parse(site.put("/m", BODY))
    site.statuses = [503, 429]
    assets.fetch(source, SUM).close()
    assert len(site.asked) == 3


def test_faults_that_stay_end_it(assets: Assets, site: Site) -> None:
    source = parse(site.put("/m", BODY))
    site.statuses = [503] * 9
    with pytest.raises(DownloadFailed, match="503"):
        assets.fetch(source, SUM)
    assert len(site.asked) == 3


def test_an_absent_file_is_not_asked_for_again(assets: Assets, site: Site) -> None:
    with pytest.raises(AssetMissing, match="404"):
        assets.fetch(HttpSource(f"{site.url}/none"), SUM)
    assert len(site.asked) == 1


def test_nobody_at_the_address_is_said(assets: Assets) -> None:
    with pytest.raises(DownloadFailed, match="refused"):
        assets.fetch(HttpSource("http://127.0.0.1:9/m"), SUM)


@pytest.mark.parametrize("checksum", [None, PREFIX])
def test_plain_http_needs_a_whole_checksum(
    assets: Assets, site: Site, checksum: Checksum | None
) -> None:
    with pytest.raises(ChecksumNeeded, match="sha256"):
        assets.fetch(parse(site.put("/m", BODY)), checksum)
    assert site.asked == []


def test_a_file_larger_than_the_cache_is_refused_before_it_comes(
    site: Site, root: Path, tmp_path: Path, options: FetchOptions
) -> None:
    assets = Assets(Cache(tmp_path / "small", 500_000), root, options=options)
    with pytest.raises(AssetTooLarge, match="900000 bytes"):
        assets.fetch(parse(site.put("/m", BODY)), SUM)
    assert Cache(tmp_path / "small", 1).used_bytes() == 0


def test_a_redirect_is_followed(assets: Assets, site: Site) -> None:
    site.redirects["/old"] = site.put("/new", BODY)
    with assets.fetch(HttpSource(f"{site.url}/old"), SUM) as held:
        assert held.sha256 == SUM.digest


def test_a_redirects_body_is_not_read(assets: Assets, site: Site) -> None:
    """An announced body that never comes is waited for by nobody."""
    site.redirects["/old"] = site.put("/m", BODY)
    site.redirect_bytes = 1 << 30
    with assets.fetch(parse(f"{site.url}/old"), SUM) as held:
        assert held.sha256 == SUM.digest
    assert [path for path, _ in site.asked] == ["/old", "/m"]


def test_a_redirect_to_a_file_is_refused(assets: Assets, site: Site) -> None:
    site.redirects["/old"] = "file:///etc/hostname"
    with pytest.raises((AssetMissing, DownloadFailed)):
        assets.fetch(HttpSource(f"{site.url}/old"), SUM)


def test_a_hub_file_comes_with_the_token(site: Site, cache: Cache, root: Path) -> None:
    site.put("/org/repo/resolve/main/m.onnx", BODY, '"one"')
    assets = Assets(cache, root, options=FetchOptions(hub_url=site.url, hub_token="tok"))
    for _ in range(2):
        with assets.fetch(HubSource("org/repo", "main", "m.onnx")) as held:
            assert held.path.read_bytes() == BODY
    assert site.asked[0][1]["Authorization"] == "Bearer tok"
    assert site.asked[1][1]["If-None-Match"] == '"one"'
    assert "tok" not in repr(FetchOptions(hub_token="tok"))


def test_a_hub_token_stays_at_the_hub(site: Site, cache: Cache, root: Path) -> None:
    elsewhere = site.url.replace("127.0.0.1", "localhost")
    site.put("/blob", BODY)
    site.redirects["/o/r/resolve/main/m"] = f"{site.url}/here"
    site.redirects["/here"] = f"{elsewhere}/blob"
    assets = Assets(cache, root, options=FetchOptions(hub_url=site.url, hub_token="tok"))
    assets.fetch(HubSource("o/r", "main", "m")).close()
    sent = [headers.get("Authorization") for _, headers in site.asked]
    assert sent == ["Bearer tok", "Bearer tok", None]


@pytest.mark.parametrize("lost", ["index", "first"])
def test_a_hub_file_that_changed_is_refused_until_its_checksum_is_given(
    site: Site, assets: Assets, tmp_path: Path, lost: str
) -> None:
    source = HubSource("o/r", "main", "m")
    site.put("/o/r/resolve/main/m", BODY, '"1"')
    assets.fetch(source).close()
    shutil.rmtree(tmp_path / "cache" / lost)
    site.put("/o/r/resolve/main/m", WRONG, '"2"')
    for _ in range(2):
        with pytest.raises(HubFileChanged, match=f"at its first use here {SUM.digest}"):
            assets.fetch(source)
    with assets.fetch(source, Checksum("sha256", hashlib.sha256(WRONG).hexdigest())) as held:
        assert held.path.read_bytes() == WRONG
    site.put("/o/r/resolve/main/m", BODY, '"3"')
    assets.fetch(source).close()


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_hub_that_denies_a_file_says_what_to_check(
    site: Site, assets: Assets, status: int
) -> None:
    site.statuses = [status]
    with pytest.raises(AssetMissing, match=rf"answers {status}; .*MLSCOPE_HUB_TOKEN_FILE"):
        assets.fetch(HubSource("o/r", "main", "m"))


def test_a_busy_hub_is_waited_for_and_then_told(site: Site, assets: Assets) -> None:
    site.statuses = [429] * 3
    with pytest.raises(DownloadFailed, match=r"answers 429 .*fetch again to continue"):
        assets.fetch(HubSource("o/r", "main", "m"))
    assert site.statuses == []


def test_half_a_file_of_a_hub_is_completed(site: Site, assets: Assets) -> None:
    site.put("/o/r/resolve/main/m", BODY, '"1"')
    site.cuts = [450_000]
    with assets.fetch(HubSource("o/r", "main", "m")) as held:
        assert held.path.read_bytes() == BODY
    assert [headers.get("Range") for _, headers in site.asked] == [None, "bytes=450000-"]


def test_a_commit_of_a_hub_is_asked_for_once(site: Site, assets: Assets) -> None:
    source = HubSource("o/r", "a" * 40, "m")
    site.put(f"/o/r/resolve/{'a' * 40}/m", BODY)
    for _ in range(2):
        assets.fetch(source).close()
    assert len(site.asked) == 1


def test_without_a_hub_the_setting_is_named(cache: Cache, root: Path) -> None:
    with pytest.raises(SourceUnset, match="set MLSCOPE_HUB_URL"):
        Assets(cache, root).fetch(HubSource("o/r", "main", "m"))


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), 2),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), 2),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), 3),
    ],
)
def test_a_host_without_a_way_to_it_is_given_up_sooner(
    error: OSError, tries: int, assets: Assets, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = site.put("/m", BODY)
    dials: list[object] = []

    def fails(*place: object, **_: object) -> None:
        dials.append(place)
        raise error

    monkeypatch.setattr("mlscope.assets.web.dialing._resolved", fails)
    with pytest.raises(DownloadFailed, match=re.escape(error.strerror or "")):
        assets.fetch(HttpSource(address), SUM)
    assert len(dials) == tries


def test_what_is_known_is_not_sent_again(site: Site, cache: Cache, options: FetchOptions) -> None:
    url = site.put("/m", BODY, '"one"')
    partial = cache.claim("k", url, None, lambda: None, 1.0)
    assert isinstance(partial, Partial)
    remote = Remote(url, url, is_checked=True, cached=Origin(url, '"one"'))
    with pytest.raises(NotModified):
        Web(options.retries, options.allowed_hosts).download(remote, partial, lambda *_: None)
    partial.discard()


@pytest.mark.parametrize(("is_checked", "follows"), [(False, False), (True, True)])
def test_the_encrypted_way_is_left_with_a_checksum_only(is_checked: bool, follows: bool) -> None:
    remote = Remote("https://h/m", "https://h/m", is_checked)
    request = urllib.request.Request("https://h/m")

    def redirected() -> object:
        target, body = "http://h/m", io.BytesIO()
        return _Redirects(remote).redirect_request(request, body, 302, "", HTTPMessage(), target)

    if follows:
        assert redirected() is not None
    else:
        with pytest.raises(AssetMissing, match="give its checksum"):
            redirected()
