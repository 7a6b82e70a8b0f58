"""What `mlscope manifest check` looks for beside the text: local files, and datasets by name."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from mlscope.assets.addresses import FileSource, address_of, parse
from mlscope.assets.checksums import parse_checksum
from mlscope.assets.digests import checked_digest
from mlscope.assets.errors import BadAddress, BadChecksum, ChecksumMismatch
from mlscope.manifests.errors import Fault, ManifestFaulty
from mlscope.manifests.folders import read_manifest
from mlscope.manifests.reading import Check
from schemas.manifest import Assets, DatasetManifest, Manifest, ModelManifest

_SHOWN = 12


def file_check(path: Path, manifests_folder: Path) -> Check:
    """Return a check of the files that the manifest at `path` names without a host.

    They lie beside it, or below the folder of its kind in `manifests_folder`, as for shipped ones.
    """

    def faults(manifest: Manifest) -> Iterator[Fault]:
        if isinstance(manifest, ModelManifest):
            roots = (path.parent, manifests_folder / "models")
            yield from _asset_faults("model", manifest.model, roots)
            for number, variant in enumerate(manifest.frameworks):
                yield from _asset_faults(f"frameworks.{number}.model", variant.model, roots)
        if isinstance(manifest, DatasetManifest):
            roots = (path.parent, manifests_folder / "datasets")
            for number, sample in enumerate(manifest.samples):
                field = f"samples.{number}"
                yield from _file_faults(
                    f"{field}.path", f"{field}.sha256", sample.path, sample.sha256, roots
                )

    return faults


def dataset_check(paths: Iterable[Path], manifests_folder: Path) -> Check:
    """Return a check that a model's dataset is shipped, or in one of the checked files `paths`."""

    @cache
    def names() -> frozenset[str]:
        """Return the datasets' names in lower case."""
        datasets = set()
        for path in (*paths, *(manifests_folder / "datasets").rglob("*.y*ml")):
            with suppress(ManifestFaulty):
                manifest = read_manifest(path, "dataset", ())
                if isinstance(manifest, DatasetManifest):
                    datasets.add(manifest.name.lower())
        return frozenset(datasets)

    def faults(manifest: Manifest) -> Iterator[Fault]:
        name = manifest.dataset if isinstance(manifest, ModelManifest) else ""
        if not name or name.partition(":")[0].strip().lower() in names():
            return
        similar = get_close_matches(name.lower(), names(), n=1, cutoff=0.6)
        listed = sorted(names())
        ellipsis = ", …" if len(listed) > _SHOWN else ""
        shown = f"{similar[0]}?" if similar else f"one of {', '.join(listed[:_SHOWN])}{ellipsis}"
        yield Fault("dataset", repr(name), f"{shown} Or check its own manifest along with this one")

    return faults


def _asset_faults(field: str, assets: Assets, roots: tuple[Path, ...]) -> Iterator[Fault]:
    """Yield missing and changed files of one variant, whose `assets` stand in `field`."""
    if assets.archive:
        named = [("archive", "archive_checksum", assets.archive, assets.archive_checksum)]
    else:
        named = [
            ("graph_path", "checksum", assets.graph_path, assets.checksum),
            ("weights_path", "weights_checksum", assets.weights_path, assets.weights_checksum),
            *(
                (f"assets.{name}", f"assets.{name}", name, text)
                for name, text in assets.assets.items()
            ),
        ]
    for key, checksum_key, name, checksum in named:
        address = address_of(assets, name) if name else ""
        yield from _file_faults(
            f"{field}.{key}", f"{field}.{checksum_key}", address, checksum, roots
        )


def _file_faults(
    field: str, checksum_field: str, address: str, checksum: str, roots: tuple[Path, ...]
) -> Iterator[Fault]:
    """Yield that no file of `roots` is at an `address`, or that it has another `checksum`."""
    try:
        source, expected = parse(address) if address else None, parse_checksum(checksum)
    except (BadAddress, BadChecksum):
        return  # reported by the check of the text
    if not isinstance(source, FileSource) or Path(source.path).is_absolute():
        return
    file = next((root / source.path for root in roots if (root / source.path).exists()), None)
    if file is None:
        yield Fault(
            field, f"no file {source.path}", " or ".join(f"a file below {root}" for root in roots)
        )
        return
    if file.is_dir():
        return
    try:
        checked_digest(file, expected, address)
    except ChecksumMismatch as error:
        yield Fault(
            checksum_field, repr(checksum), f"{error.algorithm}:{error.actual}, which {file} has"
        )
