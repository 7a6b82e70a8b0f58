"""Reads manifests from YAML files in a folder (I/O)."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from mlscope.manifests.checking import faults_in
from mlscope.manifests.errors import Fault, ManifestFaulty
from mlscope.manifests.reading import MOST_BYTES, Check, kinds, read_manifest_text
from schemas.manifest import Manifest


def folder_of(kind: str) -> str:
    """Return the name of the folder for a kind of manifests, such as `models`."""
    return kind if kind.endswith("ware") else f"{kind}s"


def read_manifests(
    folder: Path, of_kinds: Iterable[str] = kinds()
) -> Iterator[Manifest | ManifestFaulty]:
    """Yield each manifest in `folder/{models,frameworks,…}`, those of a kind sorted by path.

    `of_kinds`: which kinds, such as `model`. For a file that can't be read the error is yielded,
    and reading continues.
    """
    for kind in of_kinds:
        for path in sorted((folder / folder_of(kind)).rglob("*.y*ml")):
            try:
                yield read_manifest(path, kind)
            except ManifestFaulty as faulty:
                yield faulty


def read_manifest(path: Path, kind: str = "", checks: tuple[Check, ...] = (faults_in,)) -> Manifest:
    """Return the manifest in the file at `path`, checked by `checks`.

    `kind` is the kind of a manifest whose file gives none. Raises ManifestFaulty.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            fault = Fault("", f"{path.stat().st_size} bytes", f"up to {MOST_BYTES}")
            raise ManifestFaulty(path.name, [fault])
        text = path.read_text("utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ManifestFaulty(path.name, [Fault("", reason, "a readable file")]) from error
    except UnicodeDecodeError as error:
        raise ManifestFaulty(path.name, [Fault("", str(error), "UTF-8")]) from error
    return read_manifest_text(text, path.name, kind, checks)
