"""A dataset given as a folder or file of one's own: described, and sent to where agents find it.

What is below MLSCOPE_DATASET_FOLDERS agents of this host read in place; else what is small travels
in the request, and what is not is put up as an archive (`cli.uploading`).
"""

import argparse
import asyncio
import base64
import hashlib
import os
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cli.failures import Misused
from cli.transfers import TransferLine
from cli.uploading import opened_shelf
from mlscope.client.errors import NoCluster
from mlscope.datasets.dataset import Dataset
from mlscope.datasets.detecting import reader_for
from mlscope.datasets.errors import DatasetError
from mlscope.datasets.folder import paths_below
from mlscope.datasets.opening import open_dataset
from mlscope.settings import Settings

INLINE_BYTES = 1 << 20
"""Bytes of samples that travel in a request; as base64 they take a third more."""

_INLINE_READERS = ("files", "image_folder", "imagenet")
"""Readers whose samples are files as they are, and whose truths are classes."""

Manifest = dict[str, Any]


def given_dataset(path: Path, arguments: argparse.Namespace) -> Manifest:
    """Return a manifest of the dataset at a path, once agents can have it.

    Raises Misused for what can't be read, ClientError where it can't be sent.
    """
    try:
        reader, options = reader_for(path)
        with tempfile.TemporaryDirectory(prefix="mlscope-") as scratch:
            dataset = open_dataset(reader, path, options, scratch=Path(scratch))
            manifest = {"kind": "dataset", "name": name_of(path), "modality": "image"}
            if (inlined := _inlined(dataset, reader)) and not is_in_place(path, _folders()):
                return {**manifest, "samples": inlined}
            source = {"reader": reader, "options": dict(options), "samples": len(dataset)}
            return {**manifest, "source": {**source, **_sent(path, arguments)}}
    except DatasetError as error:
        raise Misused(f"--dataset {path}: {error}") from None


def settled(manifest: Manifest, file: Path, arguments: argparse.Namespace) -> Manifest:
    """Return a manifest from a file of one's own, with what lies beside it sent along.

    What is not there is left as it says: then it is below the agent's manifests. Raises Misused,
    ClientError.
    """
    source = manifest.get("source")
    if source and (found := _beside(source["address"], file)) is not None:
        if source.get("archive") or source.get("reader") == "urls":
            raise Misused(f"{file}: source: put it up first: mlscope artifacts put {found}")
        return {**manifest, "source": {**source, **_sent(found, arguments)}}
    samples = [_with_content(each, file) for each in manifest.get("samples", ())]
    whole = sum(len(each.get("content", "")) for each in samples) * 3 // 4
    if whole > INLINE_BYTES:
        allowed = f"up to {INLINE_BYTES}; give the folder as a source instead"
        raise Misused(f"{file}: samples: {whole} bytes of files, allowed: {allowed}")
    return {**manifest, "samples": samples} if samples else manifest


def name_of(path: Path) -> str:
    """Return a dataset's name: its folder's or file's, as names of manifests are written."""
    words = "".join(each if each.isalnum() else "-" for each in path.resolve().stem.lower())
    return "-".join(filter(None, words.split("-"))) or "given"


def is_in_place(path: Path, folders: tuple[str, ...]) -> bool:
    """Say whether agents of this host read a path where it lies."""
    roots = (Path(each).expanduser().resolve() for each in folders)
    return any(path.resolve().is_relative_to(root) for root in roots)


def packed(path: Path, into: Path) -> str:
    """Write a folder (or one file) as a tar archive and return its sha256.

    The same files give the same archive: names in order, no times, no owners.
    """
    with tarfile.open(into, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, file in _members(path):
            member = tarfile.TarInfo(name)
            member.size = file.stat().st_size
            with file.open("rb") as body:
                archive.addfile(member, body)
    with into.open("rb") as whole:
        return hashlib.file_digest(whole, "sha256").hexdigest()


def _folders() -> tuple[str, ...]:
    return Settings.read(os.environ).dataset_folders


def _sent(path: Path, arguments: argparse.Namespace) -> Manifest:
    """Return where agents find a dataset: in place, or in the archive that was put up for them."""
    if is_in_place(path, _folders()):
        return {"address": f"file:{path.resolve()}"}
    try:
        address, sha256 = asyncio.run(_put(arguments, path))
    except NoCluster:
        # A plan for a machine without broker: its own owner says what may be read there.
        return {"address": f"file:{path.resolve()}"}
    below = "" if path.is_dir() else path.name
    source = {"address": address, "checksum": f"sha256:{sha256}"}
    return {**source, "archive": True, "path": below}


async def _put(arguments: argparse.Namespace, path: Path) -> tuple[str, str]:
    """Put a dataset's archive where agents find it; return address and sha256.

    Raises NoCluster.
    """
    async with opened_shelf(arguments) as shelf:
        with tempfile.TemporaryDirectory(prefix="mlscope-") as folder:
            archive = Path(folder, "dataset.tar")
            sha256 = await asyncio.to_thread(packed, path, archive)
            name = f"datasets/{sha256}.tar"
            with TransferLine(sys.stderr, name) as line:
                return await shelf.put(name, archive, line.show), sha256


def _inlined(dataset: Dataset, reader: str) -> list[Manifest]:
    """Return the samples as a request carries them; none where they are too many bytes."""
    samples: list[Manifest] = []
    left = INLINE_BYTES
    for number in range(len(dataset) if reader in _INLINE_READERS else 0):
        body, truth = dataset[number], dataset.truths[number]
        left -= len(body)
        if left < 0:
            return []
        said: Mapping[str, Any] = {}
        if truth is not None:
            said = {"labels": list(truth.labels), "classes": list(truth.classes)}
        samples.append({"content": base64.b64encode(body).decode(), **said})
    return samples


def _beside(address: str, file: Path) -> Path | None:
    """Return the file or folder that an address leads to beside a manifest, if there is one."""
    if ":" in address and not address.startswith("file:"):
        return None
    path = file.parent / address.removeprefix("file:")
    return path if path.exists() else None


def _with_content(sample: Manifest, file: Path) -> Manifest:
    found = _beside(sample["path"], file) if sample.get("path") else None
    if found is None:
        return sample
    body = found.read_bytes()
    rest = {name: value for name, value in sample.items() if name != "path"}
    return {**rest, "content": base64.b64encode(body).decode()}


def _members(path: Path) -> Iterator[tuple[str, Path]]:
    if path.is_file():
        yield path.name, path
        return
    for each in paths_below(path, ()):
        yield each.relative_to(path).as_posix(), each
