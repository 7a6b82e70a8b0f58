"""Which of a model's files nobody can verify: no checksum, and an address that may change. Pure.

A file of this host or of a request without checksum is never used at all; a package's version and
a hub's commit always hold the same, and the artifact repository keeps a digest of its own. What is
left, a web address or a hub's branch, holds what somebody puts there. Such a file is used only
where a request says so: `weights: unverified` among its options.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mlscope.assets.addresses import HttpSource, HubSource, address_of, parse
from mlscope.assets.errors import BadAddress
from schemas.manifest import Assets

OPTION = "weights"
"""The option of a request that says which weights it takes, beside the manifest's."""

UNVERIFIED = "unverified"
RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Unverifiable:
    """A file that may be anything: the field that gives no checksum, and the file's address."""

    field: str
    address: str


def unverifiable_in(assets: Assets, *, random_weights: bool = False) -> Iterator[Unverifiable]:
    """Yield a model's files that can't be verified; with random weights, weights are none."""
    for field, name, checksum in _files(assets, random_weights or assets.weights == RANDOM):
        address = address_of(assets, name)
        if not checksum and _may_change(address):
            yield Unverifiable(field, address)


def refused_in(assets: Assets, options: Mapping[str, Any]) -> Unverifiable | None:
    """Return the first file that a request with these options does not take as it comes."""
    if options.get(OPTION) == UNVERIFIED:
        return None
    is_random = options.get(OPTION) == RANDOM
    return next(unverifiable_in(assets, random_weights=is_random), None)


def _files(assets: Assets, random_weights: bool) -> Iterator[tuple[str, str, str]]:
    """Yield the field of its checksum, the name and the checksum of each file that is fetched."""
    if assets.archive:
        yield "archive_checksum", assets.archive, assets.archive_checksum
        return
    if assets.weights_path and not random_weights:
        yield "weights_checksum", assets.weights_path, assets.weights_checksum
    if assets.graph_path and not assets.builder:
        yield "checksum", assets.graph_path, assets.checksum
    for name, checksum in assets.assets.items():
        yield f"assets.{name}", name, checksum


def _may_change(address: str) -> bool:
    try:
        source = parse(address)
    except BadAddress:
        return False  # nothing is fetched from there
    is_commit = isinstance(source, HubSource) and source.is_immutable
    return isinstance(source, HttpSource | HubSource) and not is_commit
