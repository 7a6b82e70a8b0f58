"""The shipped manifests, five hundred: read once in a process."""

from functools import cache
from pathlib import Path

from cli.offline.planning import shipped_catalog
from schemas.status import Catalog


@cache
def shipped() -> Catalog:
    """Return the shipped manifests as a catalog without agents."""
    return shipped_catalog(Path("manifests"))
