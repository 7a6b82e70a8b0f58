"""Files of a model that nobody can verify: no checksum, and an address that may change. Pure.

A file of this host or of a request is never used without a checksum. The content of a package's
version and of a hub's commit never changes, and the artifact repository stores a digest. A web
address or a hub's branch may change at any time: such a file is used only if the request has the
option `weights: unverified`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mlscope.assets.addresses import HttpSource, HubSource, address_of, parse
from mlscope.assets.errors import BadAddress
from schemas.manifest import Assets

OPTION = "weights"
"""The option of a request that allows other weights than verified ones."""

UNVERIFIED = "unverified"
RANDOM = "random"
RANDOM_ADVICE = f"--option {OPTION}={RANDOM} measures it with random weights"


@dataclass(frozen=True, slots=True)
class Unverifiable:
    """A file without a checksum at an address that may change; `field` is the checksum's."""

    field: str
    address: str


def unverifiable_in(assets: Assets, *, random_weights: bool = False) -> Iterator[Unverifiable]:
    """Yield a model's files that can't be verified; `random_weights` need no file of weights."""
    is_random = random_weights or assets.weights == RANDOM
    files = [
        ("weights_checksum", "" if is_random else assets.weights_path, assets.weights_checksum),
        ("checksum", "" if assets.builder else assets.graph_path, assets.checksum),
        *((f"assets.{name}", name, checksum) for name, checksum in assets.assets.items()),
    ]
    if assets.archive:
        files = [("archive_checksum", assets.archive, assets.archive_checksum)]
    for field, name, checksum in files:
        if not name or checksum:
            continue
        address = address_of(assets, name)
        try:
            source = parse(address)
        except BadAddress:
            continue  # nothing is fetched from there
        is_commit = isinstance(source, HubSource) and source.is_immutable
        if isinstance(source, HttpSource | HubSource) and not is_commit:
            yield Unverifiable(field, address)


def refused_in(assets: Assets, options: Mapping[str, Any]) -> Unverifiable | None:
    """Return the first file that a request with these `options` refuses; None without any."""
    if options.get(OPTION) == UNVERIFIED:
        return None
    is_random = options.get(OPTION) == RANDOM
    return next(unverifiable_in(assets, random_weights=is_random), None)
