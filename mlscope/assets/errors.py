"""Errors of fetching assets. Each names the address or field, and how to fix it."""

from mlscope.redaction import redact

_MOST_SHOWN = 300
"""Characters of what an archive itself says: a member's name may be one of 64 kB."""


class FetchError(Exception):
    """An asset can't be fetched or used."""


class BadAddress(FetchError):
    """An address does not say where a file is."""

    def __init__(self, address: str, field: str, expected: str) -> None:
        """Give the `address`, the `field` that is wrong, and the `expected` value in words."""
        self.address, self.field, self.expected = redact(address), field, expected
        super().__init__(f"address {self.address!r}: {field} must be {expected}")


class BadChecksum(FetchError):
    """A checksum is no sha256 or md5 digest."""

    def __init__(self, text: str) -> None:
        """Give the text."""
        self.text = text
        super().__init__(
            f"checksum {text!r}: expected sha256:<64 hex digits>, md5:<32 hex digits> or "
            "sha256-prefix:<8 or more hex digits>"
        )


class ChecksumNeeded(FetchError):
    """A file with such an address is used only with a checksum."""

    def __init__(self, address: str, reason: str) -> None:
        """Give the address and the reason why its content can't be trusted."""
        self.address, self.reason = redact(address), reason
        super().__init__(f"asset {self.address}: {reason}; give its checksum (sha256:…)")


class ChecksumMismatch(FetchError):
    """A file does not match its checksum."""

    def __init__(self, address: str, algorithm: str, expected: str, actual: str) -> None:
        """Give the `address`, the `algorithm`, and the `expected` and `actual` digest."""
        self.address, self.algorithm = redact(address), algorithm
        self.expected, self.actual = expected, actual
        super().__init__(f"asset {self.address}: {algorithm} {actual}, expected {expected}")


class FileOutsideRoot(FetchError):
    """The path of a `file:` address leads out of its root."""

    def __init__(self, path: str, root: str) -> None:
        """Give the path and the folder that it must be in."""
        self.path, self.root = path, root
        super().__init__(f"path {path!r}: leads out of {root}; move the file into that folder")


class AssetMissing(FetchError):
    """There is nothing at an address."""

    def __init__(self, address: str, reason: str) -> None:
        """Give the address and the reason why nothing was found."""
        self.address, self.reason = redact(address), redact(reason)
        super().__init__(f"asset {self.address}: {self.reason}")


class DownloadFailed(FetchError):
    """A file could not be downloaded; the data received so far are kept for the next try."""

    def __init__(self, address: str, reason: str, done_bytes: int, tries: int) -> None:
        """Give the `address`, the last failure as `reason`, the bytes received and the `tries`.

        `done_bytes` are in the cache, also from earlier calls.
        """
        self.address, self.reason = redact(address), redact(reason)
        self.done_bytes, self.tries = done_bytes, tries
        super().__init__(
            f"asset {self.address}: {self.reason} ({done_bytes} bytes kept after {tries} tries; "
            "fetch again to continue)"
        )


class HostNotAllowed(FetchError):
    """An address leads to a host that may not be fetched from."""

    def __init__(self, host: str, address: str) -> None:
        """Give the `host` and the `address` that it has."""
        self.host, self.address = redact(host), address
        super().__init__(
            f"host {self.host} ({address}) may not be fetched from; "
            "the owner of this machine allows hosts by MLSCOPE_FETCH_HOSTS"
        )


class AssetTooLarge(FetchError):
    """A file is larger than the limit of the whole cache."""

    def __init__(self, address: str, size_bytes: int, limit_bytes: int) -> None:
        """Give the `address`, its `size_bytes` and the cache's `limit_bytes`."""
        self.address, self.size_bytes, self.limit_bytes = redact(address), size_bytes, limit_bytes
        super().__init__(
            f"asset {self.address}: {size_bytes} bytes, but the cache is limited to "
            f"{limit_bytes}; raise MLSCOPE_CACHE_MAX_BYTES"
        )


class CacheFull(FetchError):
    """The cache is full of assets in use, so none can be evicted."""

    def __init__(self, root: str, needed_bytes: int, limit_bytes: int) -> None:
        """Give the cache's folder `root`, the `needed_bytes` and its `limit_bytes`."""
        self.root, self.needed_bytes, self.limit_bytes = root, needed_bytes, limit_bytes
        super().__init__(
            f"cache {root}: no room for {needed_bytes} bytes within {limit_bytes}, the assets in "
            "it are in use; close sessions or raise MLSCOPE_CACHE_MAX_BYTES"
        )


class CacheUnusable(FetchError):
    """The cache's folder, or a file in it, can't be read or written."""

    def __init__(self, place: str, reason: str) -> None:
        """Give the folder or the asset, and the system's error."""
        self.place, self.reason = redact(place), reason
        super().__init__(f"cache: {self.place}: {reason}; check its folder's free space and owner")


class StillBusy(FetchError):
    """Another process of this host is fetching the same asset and did not finish in time."""

    def __init__(self, address: str, waited_s: float) -> None:
        """Give the address and the seconds waited."""
        self.address, self.waited_s = redact(address), waited_s
        super().__init__(
            f"asset {self.address}: another process is still fetching it after {waited_s:g} s"
        )


class ArchiveUnreadable(FetchError):
    """A file is not a supported archive, or is corrupt."""

    def __init__(self, archive: str, reason: str) -> None:
        """Give the archive's address and the reason."""
        self.archive, self.reason = redact(archive), _short(reason)
        super().__init__(f"archive {self.archive}: {self.reason}")


class ArchiveUnsafe(FetchError):
    """A member of an archive leads out of its folder, or is not a regular file."""

    def __init__(self, archive: str, member: str, reason: str) -> None:
        """Give the address of the `archive`, its `member` and the `reason`."""
        self.archive, self.member, self.reason = redact(archive), _short(member), _short(reason)
        super().__init__(
            f"archive {self.archive}: member {self.member!r} {self.reason}; nothing is unpacked"
        )


class ArchiveBomb(FetchError):
    """An archive holds more than its limits allow."""

    def __init__(self, archive: str, measure: str, limit: float, fix: str = "") -> None:
        """Give the address of the `archive`, the `measure` that is exceeded and its `limit`.

        `fix` says what to do about it, where fewer or smaller files are not the answer.
        """
        self.archive, self.measure, self.limit, self.fix = redact(archive), measure, limit, fix
        advice = fix or "pack fewer or smaller files"
        super().__init__(
            f"archive {self.archive}: more than {limit:g} {measure}; not unpacked; {advice}"
        )


class PackageUnavailable(FetchError):
    """pip could not download a package's wheel."""

    def __init__(self, requirement: str, reason: str) -> None:
        """Give the requirement and pip's error."""
        self.requirement, self.reason = requirement, redact(reason)
        super().__init__(f"package {requirement}: {self.reason}")


class SourceUnset(FetchError):
    """An address needs a hub or a NATS server, and this process has none."""

    def __init__(self, address: str, reason: str) -> None:
        """Give the address, and what is missing."""
        self.address, self.reason = redact(address), reason
        super().__init__(f"asset {self.address}: {reason}")


class HubFileChanged(FetchError):
    """A file without a checksum differs from the one that came first from its hub address."""

    def __init__(self, address: str, first: str, actual: str) -> None:
        """Give the `address`, and the sha256 of the `first` and of the `actual` file."""
        self.address, self.first, self.actual = redact(address), first, actual
        super().__init__(
            f"asset {self.address}: it changed: sha256 {actual}, at its first use here {first}; "
            "to accept it, give this checksum in the manifest, or name a commit in the address"
        )


class ArtifactBroken(FetchError):
    """An artifact in the repository can't be read."""

    def __init__(self, name: str, reason: str) -> None:
        """Give the artifact's name and the reason."""
        self.name, self.reason = name, reason
        super().__init__(f"artifact {name}: {reason}; put it again")


class RepositoryFailed(FetchError):
    """A call to the artifact repository failed."""

    def __init__(self, name: str, reason: str) -> None:
        """Give the artifact's name and the error of the bus."""
        self.name, self.reason = name, redact(reason)
        super().__init__(f"artifact {name}: the repository failed: {self.reason}")


def _short(text: str) -> str:
    """Return the start of a text that an archive's maker chose."""
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
