"""Keys by which caches know files: a checksum, or the address of what never changes. Pure."""

import hashlib

from mlscope.assets.addresses import HubSource, PackageSource, Source
from mlscope.assets.checksums import Checksum

_SHORT_DIGITS = 12


def key_of(text: str) -> str:
    """Return the file name of the record about `text`: its sha256."""
    return hashlib.sha256(text.encode()).hexdigest()


def index_key(source: Source, checksum: Checksum | None) -> str:
    """Return the key of an asset in the index; several files may share a checksum's prefix."""
    if checksum is not None and checksum.is_prefix:
        return f"{checksum} {source.address}"
    return str(checksum or source.address)


def never_changes(source: Source) -> bool:
    """Tell whether what an address holds is always the same, so that it needs no checksum."""
    return isinstance(source, PackageSource) or (
        isinstance(source, HubSource) and source.is_immutable
    )


def short_key(key: str) -> str:
    """Return the digits by which an agent announces that its cache has the file of a `key`."""
    return shortened(key_of(key))


def shortened(name: str) -> str:
    """Return the digits of a record's `name` that an agent announces."""
    return name[:_SHORT_DIGITS]
