"""The cache: content by its digest, room by what was longest unused, one download for all."""

import hashlib
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest

from mlscope.assets.addresses import FileSource, HttpSource, parse
from mlscope.assets.cache import Cache, PinnedAsset
from mlscope.assets.checksums import Checksum
from mlscope.assets.errors import (
    AssetMissing,
    AssetTooLarge,
    CacheFull,
    CacheUnusable,
    ChecksumMismatch,
    ChecksumNeeded,
    FileOutsideRoot,
    StillBusy,
)
from mlscope.assets.fetching import Assets
from mlscope.assets.options import AllowedHosts, FetchOptions, RetryPolicy
from mlscope.assets.partial import Partial
from tests.mlscope.assets.web_server import Site

SPAWN = multiprocessing.get_context("spawn")


def kept(cache: Cache, body: bytes) -> PinnedAsset:
    """Put a file into the cache."""
    sha256 = hashlib.sha256(body).hexdigest()
    partial = cache.claim(sha256, "here", Checksum("sha256", sha256), lambda: None, 1.0)
    assert isinstance(partial, Partial)
    try:
        partial.restart()
        partial.reserve(len(body))
        partial.write((body,))
        return cache.adopt(partial)
    finally:
        partial.close()


def sum_of(body: bytes) -> Checksum:
    """Return a body's checksum."""
    return Checksum("sha256", hashlib.sha256(body).hexdigest())


def test_a_file_lies_under_its_digest(cache: Cache, tmp_path: Path) -> None:
    with kept(cache, b"x" * 100) as held:
        sha256 = hashlib.sha256(b"x" * 100).hexdigest()
        assert held.path == tmp_path / "cache" / "sha256" / sha256[:2] / sha256[2:]
        assert held.path.stat().st_mode & 0o777 == 0o444
        assert cache.used_bytes() == 100


def test_a_file_may_be_held_twice(cache: Cache) -> None:
    with kept(cache, b"x") as first:
        second = cache.pin(first.sha256)
        assert second is not None
        second.close()


@pytest.mark.parametrize("full", [False, True])
def test_an_altered_copy_is_not_used(cache: Cache, full: bool) -> None:
    with kept(cache, b"good") as held:
        stamp = held.path.stat()
        held.path.chmod(0o644)
        held.path.write_bytes(b"evil")
        same_time = stamp.st_mtime_ns + (0 if full else 1)
        os.utime(held.path, ns=(stamp.st_atime_ns, same_time))
    assert cache.pin(held.sha256, full=full) is None
    assert not held.path.exists()


def test_an_unaltered_copy_is_not_hashed_again(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(cache, b"good").close()
    monkeypatch.setattr("mlscope.assets.cache.checked_digest", lambda *_: pytest.fail("hashed"))
    again = cache.pin(hashlib.sha256(b"good").hexdigest())
    assert again is not None
    again.close()


def is_held(cache: Cache, body: bytes) -> bool:
    """Use an entry, and tell whether it was there."""
    pinned = cache.pin(sum_of(body).digest)
    if pinned is not None:
        pinned.close()
    return pinned is not None


def test_the_longest_unused_goes_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 250)
    bodies = [bytes([n]) * 100 for n in range(3)]
    for body in bodies[:2]:
        kept(cache, body).close()
        time.sleep(0.01)
    assert is_held(cache, bodies[0])
    kept(cache, bodies[2]).close()
    assert not is_held(cache, bodies[1])
    for body in (bodies[0], bodies[2]):
        assert is_held(cache, body)
    assert cache.used_bytes() <= 250


def test_what_is_evicted_leaves_no_record(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 250)
    for name in ("a", "b", "c"):
        with kept(cache, name.encode() * 100) as held:
            cache.index(name, {"sha256": held.sha256})
    assert [cache.indexed(name).get("of") for name in "abc"] == [None, "b", "c"]
    assert len(list(tmp_path.glob("checked/*"))) == 2


def test_what_is_held_is_not_evicted(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 250)
    with kept(cache, b"a" * 100) as first, kept(cache, b"b" * 100) as second:
        with pytest.raises(CacheFull, match="in use"):
            kept(cache, b"c" * 100)
        assert first.path.exists()
        assert second.path.exists()
    kept(cache, b"c" * 100).close()
    assert not first.path.exists()


def test_two_downloads_at_once_keep_within_the_bound(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 250)
    partials = [cache.claim(name, name, None, lambda: None, 1.0) for name in "ab"]
    assert all(isinstance(partial, Partial) for partial in partials)
    partials[0].reserve(150)  # type: ignore[union-attr]
    with pytest.raises(CacheFull):
        partials[1].reserve(150)  # type: ignore[union-attr]
    for partial in partials:
        partial.close()
    kept(cache, b"c" * 200).close()


def test_what_is_larger_than_the_cache_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssetTooLarge):
        kept(Cache(tmp_path, 99), b"a" * 100)


def test_a_size_nobody_told_finds_what_room_there_is(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 250)
    with kept(cache, b"a" * 100):
        partial = cache.claim("k", "k", None, lambda: None, 1.0)
        assert isinstance(partial, Partial)
        partial.restart()
        partial.write((b"b" * 50, b"c" * 90))
        with pytest.raises(CacheFull):
            partial.write((b"d" * 20,))
        partial.discard()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheUnusable, match="Not a directory"):
        Cache(tmp_path / "file" / "cache", 1)


def test_somebody_elses_download_is_waited_for_in_bounds(cache: Cache) -> None:
    first = cache.claim("k", "there", None, lambda: None, 1.0)
    with pytest.raises(StillBusy, match="there"):
        cache.claim("k", "there", None, lambda: None, 0.1)
    first.close()


def test_what_another_process_left_in_the_middle_is_no_entry(cache: Cache, tmp_path: Path) -> None:
    child = SPAWN.Process(target=_die_in_the_middle, args=(tmp_path / "cache",))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert cache.pin(sum_of(b"half").digest) is None
    partial = cache.claim("half", "half", None, lambda: None, 1.0)
    assert isinstance(partial, Partial)
    assert partial.size_bytes == 2
    partial.discard()


def _die_in_the_middle(root: Path) -> None:
    partial = Cache(root, 1 << 20).claim("half", "half", None, lambda: None, 1.0)
    assert isinstance(partial, Partial)
    partial.restart()
    partial.write((b"ha",))
    os.kill(os.getpid(), signal.SIGKILL)


def _churn(root: Path) -> None:
    cache = Cache(root, 2_000_000)
    while True:
        kept(cache, os.urandom(random.randrange(1, 300_000))).close()


def test_a_killed_process_leaves_no_bad_entry(tmp_path: Path) -> None:
    for seed in range(3):
        child = SPAWN.Process(target=_churn, args=(tmp_path,))
        child.start()
        before = set(tmp_path.glob("sha256/*/*"))
        while not set(tmp_path.glob("sha256/*/*")) - before:
            time.sleep(0.01)
        time.sleep(random.Random(seed).uniform(0.0, 0.1))
        child.kill()
        child.join()
        for path in tmp_path.glob("sha256/*/*"):
            assert hashlib.sha256(path.read_bytes()).hexdigest() == path.parent.name + path.name
    cache = Cache(tmp_path, 2_000_000)
    kept(cache, b"x" * 1_999_999).close()
    assert cache.used_bytes() <= 2_000_000


def _fetch(root: Path, url: str, checksum: Checksum) -> None:
    options = FetchOptions(
        AllowedHosts(["127.0.0.1"]), wait_s=60.0, retries=RetryPolicy(silence_s=30.0)
    )
    with Assets(Cache(root, 100 << 20), root, options=options).fetch(
        HttpSource(url), checksum
    ) as held:
        assert held.path.stat().st_size == 5_000_000


def test_several_processes_download_once(site: Site, tmp_path: Path) -> None:
    body = os.urandom(5_000_000)
    url = site.put("/m", body)
    agents = [
        SPAWN.Process(target=_fetch, args=(tmp_path / "cache", url, sum_of(body))) for _ in range(3)
    ]
    for agent in agents:
        agent.start()
    for agent in agents:
        agent.join()
    assert [agent.exitcode for agent in agents] == [0, 0, 0]
    assert len(site.asked) == 1


def test_a_local_file_stays_in_place(assets: Assets, root: Path) -> None:
    (root / "models").mkdir()
    (root / "models" / "m").write_bytes(b"good")
    with assets.fetch(parse("file:m"), sum_of(b"good"), below="models") as held:
        assert held.path == root.resolve() / "models" / "m"
    (root / "models" / "m").write_bytes(b"other")
    with pytest.raises(ChecksumMismatch):
        assets.fetch(parse("m"), sum_of(b"good"), below="models")


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/hostname", "link"])
def test_a_local_path_stays_below_its_root(assets: Assets, root: Path, path: str) -> None:
    (root.parent / "x").write_bytes(b"secret")
    (root / "link").symlink_to(root.parent / "x")
    with pytest.raises(FileOutsideRoot):
        assets.fetch(FileSource(path), sum_of(b"secret"))


def test_a_local_file_needs_to_be_there_and_a_checksum(assets: Assets, root: Path) -> None:
    (root / "x").write_bytes(b"x")
    with pytest.raises(AssetMissing):
        assets.fetch(FileSource("y"), sum_of(b"x"))
    with pytest.raises(ChecksumNeeded):
        assets.fetch(FileSource("x"))
