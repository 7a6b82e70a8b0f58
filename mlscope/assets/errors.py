"""What can go wrong with an asset. Each names the address or field, and what would mend it."""

from mlscope.redaction import redact


class AssetError(Exception):
    """An asset can't be had or used."""


class BadAddress(AssetError):
    """An address does not say where a file is."""

    def __init__(self, address: str, field: str, expected: str) -> None:
        """Name the address, its field that is wrong and what it should hold."""
        self.address, self.field, self.expected = redact(address), field, expected
        super().__init__(f"address {self.address!r}: {field} must be {expected}")


class BadChecksum(AssetError):
    """A checksum is no sha256 or md5 digest."""

    def __init__(self, text: str) -> None:
        """Give the text found."""
        self.text = text
        super().__init__(
            f"checksum {text!r}: expected sha256:<64 hex digits>, md5:<32 hex digits> or "
            "sha256-prefix:<8 or more hex digits>"
        )


class ChecksumNeeded(AssetError):
    """A file from there is used only when its checksum is known."""

    def __init__(self, address: str, reason: str) -> None:
        """Name the address and why its content can't be trusted."""
        self.address, self.reason = redact(address), reason
        super().__init__(f"asset {self.address}: {reason}; give its checksum (sha256:…)")


class ChecksumMismatch(AssetError):
    """A file is not what its checksum says."""

    def __init__(self, address: str, algorithm: str, expected: str, found: str) -> None:
        """Name the file, the algorithm and both digests."""
        self.address, self.algorithm = redact(address), algorithm
        self.expected, self.found = expected, found
        super().__init__(f"asset {self.address}: {algorithm} {found}, expected {expected}")


class PathEscapes(AssetError):
    """A path leads out of its root."""

    def __init__(self, path: str, root: str) -> None:
        """Name the path and the folder it must stay in."""
        self.path, self.root = path, root
        super().__init__(f"path {path!r}: leads out of {root}; move the file there")


class AssetMissing(AssetError):
    """There is nothing at an address."""

    def __init__(self, address: str, reason: str) -> None:
        """Name the address and why nothing was found."""
        self.address, self.reason = redact(address), redact(reason)
        super().__init__(f"asset {self.address}: {self.reason}")


class DownloadFailed(AssetError):
    """A file could not be downloaded; what came so far is kept for the next try."""

    def __init__(self, address: str, reason: str, done_bytes: int, tries: int) -> None:
        """Name the address, the last failure, the bytes that are here and the tries made."""
        self.address, self.reason = redact(address), redact(reason)
        self.done_bytes, self.tries = done_bytes, tries
        super().__init__(
            f"asset {self.address}: {self.reason} ({done_bytes} bytes kept after {tries} tries; "
            "fetch again to go on)"
        )


class AssetTooLarge(AssetError):
    """A file is larger than the whole cache may be."""

    def __init__(self, address: str, size_bytes: int, limit_bytes: int) -> None:
        """Name the address, its size and the cache's bound."""
        self.address, self.size_bytes, self.limit_bytes = redact(address), size_bytes, limit_bytes
        super().__init__(
            f"asset {self.address}: {size_bytes} bytes, but the cache is bounded to "
            f"{limit_bytes}; raise its bound"
        )


class CacheFull(AssetError):
    """Everything in the cache is in use, so nothing can make room."""

    def __init__(self, root: str, needed_bytes: int, limit_bytes: int) -> None:
        """Name the cache, the bytes that find no room and its bound."""
        self.root, self.needed_bytes, self.limit_bytes = root, needed_bytes, limit_bytes
        super().__init__(
            f"cache {root}: no room for {needed_bytes} bytes within {limit_bytes}, the rest is in "
            "use; close sessions or raise its bound"
        )


class CacheUnusable(AssetError):
    """The cache's folder, or a file in it, can't be read or written."""

    def __init__(self, place: str, reason: str) -> None:
        """Name the folder or the asset, and what the system says."""
        self.place, self.reason = redact(place), reason
        super().__init__(f"cache: {self.place}: {reason}; check its folder's room and owner")


class StillBusy(AssetError):
    """Another process of this host is fetching the same asset and did not end in time."""

    def __init__(self, address: str, waited_s: float) -> None:
        """Name the address and how long was waited."""
        self.address, self.waited_s = redact(address), waited_s
        super().__init__(
            f"asset {self.address}: another process is still fetching it after {waited_s:g} s"
        )


class ArchiveUnreadable(AssetError):
    """A file is no archive that can be unpacked, or a broken one."""

    def __init__(self, archive: str, reason: str) -> None:
        """Name the archive and what is wrong with it."""
        self.archive, self.reason = redact(archive), reason
        super().__init__(f"archive {self.archive}: {reason}")


class ArchiveUnsafe(AssetError):
    """A member of an archive would reach out of its folder, or is no plain file."""

    def __init__(self, archive: str, member: str, reason: str) -> None:
        """Name the archive, its member and what that would do."""
        self.archive, self.member, self.reason = redact(archive), member, reason
        super().__init__(f"archive {self.archive}: member {member!r} {reason}; nothing is unpacked")


class ArchiveBomb(AssetError):
    """An archive holds more than its bounds allow."""

    def __init__(self, archive: str, measure: str, limit: float) -> None:
        """Name the archive, what there is too much of and the bound."""
        self.archive, self.measure, self.limit = redact(archive), measure, limit
        super().__init__(f"archive {self.archive}: more than {limit:g} {measure}; not unpacked")


class PackageUnavailable(AssetError):
    """pip could not bring a package's wheel."""

    def __init__(self, requirement: str, reason: str) -> None:
        """Name the requirement and pip's own words."""
        self.requirement, self.reason = requirement, redact(reason)
        super().__init__(f"package {requirement}: {self.reason}")


class HubUnset(AssetError):
    """A hub address can't be fetched, because no hub is set."""

    def __init__(self, address: str) -> None:
        """Name the address."""
        self.address = redact(address)
        super().__init__(f"asset {self.address}: no hub is set; set the hub's URL")


class NoRepository(AssetError):
    """An artifact was asked for where no broker is connected."""

    def __init__(self, address: str) -> None:
        """Name the address."""
        self.address = redact(address)
        super().__init__(f"asset {self.address}: artifacts need a NATS server; none is connected")


class ArtifactBroken(AssetError):
    """What the artifact repository holds under a name can't be read."""

    def __init__(self, name: str, reason: str) -> None:
        """Name the artifact and what is wrong with it."""
        self.name, self.reason = name, reason
        super().__init__(f"artifact {name}: {reason}; put it again")


class RepositoryFailed(AssetError):
    """The artifact repository could not be asked."""

    def __init__(self, name: str, reason: str) -> None:
        """Name the artifact and what the bus says."""
        self.name, self.reason = name, redact(reason)
        super().__init__(f"artifact {name}: the repository failed: {self.reason}")
