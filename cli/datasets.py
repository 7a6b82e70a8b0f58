"""A dataset given as a folder or file of one's own: described, and sent to where agents find it.

What is below MLSCOPE_DATASET_FOLDERS agents of this host read in place; else what is small travels
in the request, and what is not is put up as an archive (`cli.uploading`).
"""

import argparse
import base64
import contextlib
import csv
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cli.failures import Misused
from cli.uploading import members_of, put_archive, put_file, stay
from mlscope.assets.addresses import FileSource, parse
from mlscope.assets.errors import BadAddress
from mlscope.client.errors import NoCluster
from mlscope.datasets.dataset import Dataset
from mlscope.datasets.detecting import reader_for
from mlscope.datasets.errors import DatasetError
from mlscope.datasets.opening import open_dataset
from mlscope.settings import Settings

INLINE_BYTES = 1 << 20
"""Bytes of samples that travel in a request; as base64 they take a third more."""

_INLINE_READERS = ("files", "image_folder", "imagenet")
"""Readers whose samples are files as they are, and whose truths are classes."""

Manifest = dict[str, Any]

_NONE: Mapping[str, Path] = MappingProxyType({})


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
    if source and (found := _source_beside(source["address"], file)) is not None:
        if source.get("archive") or source.get("reader") == "urls":
            if stay(arguments):
                return manifest
            raise Misused(f"{file}: source: put it up first: mlscope artifacts put {found}")
        return {
            **manifest,
            "source": {**source, **_sent(found, arguments, _named_in(source, found))},
        }
    samples = [
        _with_content(each, file, f"samples.{number}.path")
        for number, each in enumerate(manifest.get("samples", ()))
    ]
    whole = sum(len(each.get("content", "")) for each in samples) * 3 // 4
    if whole > INLINE_BYTES:
        allowed = f"up to {INLINE_BYTES}; give the folder as a source instead"
        raise Misused(f"{file}: samples: {whole} bytes of files, allowed: {allowed}")
    samples = [
        _with_inputs(each, file, f"samples.{number}.inputs", arguments)
        for number, each in enumerate(samples)
    ]
    return {**manifest, "samples": samples} if samples else manifest


def name_of(path: Path) -> str:
    """Return a dataset's name: its folder's or file's, as names of manifests are written."""
    words = "".join(each if each.isalnum() else "-" for each in path.resolve().stem.lower())
    return "-".join(filter(None, words.split("-"))) or "given"


def is_in_place(path: Path, folders: tuple[str, ...]) -> bool:
    """Say whether agents of this host read a path where it lies."""
    roots = (Path(each).expanduser().resolve() for each in folders)
    return any(path.resolve().is_relative_to(root) for root in roots)


def _folders() -> tuple[str, ...]:
    return Settings.read(os.environ).dataset_folders


def _sent(path: Path, arguments: argparse.Namespace, more: Mapping[str, Path] = _NONE) -> Manifest:
    """Return where agents find a dataset: in place, or in the archive that was put up for them.

    `more` are files that go with a file, by their paths from its folder.
    """
    if is_in_place(path, _folders()) or stay(arguments):
        return {"address": f"file:{path.resolve()}"}
    members = dict(members_of(path)) if path.is_dir() else {**more, path.name: path}
    try:
        address, checksum = put_archive(arguments, "datasets", members)
    except NoCluster:
        return {"address": f"file:{path.resolve()}"}
    below = "" if path.is_dir() else path.name
    return {"address": address, "checksum": checksum, "archive": True, "path": below}


def _named_in(source: Manifest, path: Path) -> dict[str, Path]:
    """Return the files that a CSV names in its rows, or its options name, by their paths."""
    if path.is_dir():
        return {}
    options = source.get("options", {})
    names = [options.get("class_names"), options.get("labels")]
    columns = {each.get("file") for each in (options, *_maps_in(options.get("inputs")))} - {None}
    if source.get("reader") == "csv" and columns:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, delimiter=options.get("delimiter", ","))
            names += [row.get(column) for row in rows for column in columns]
    found = {name: path.parent / name for name in names if isinstance(name, str) and name}
    root = path.parent.resolve()
    return {
        each.resolve().relative_to(root).as_posix(): each
        for each in found.values()
        if each.is_file() and each.resolve().is_relative_to(root)
    }


def _maps_in(value: Any) -> list[Mapping[str, Any]]:
    """Return the maps in a map; of anything else none."""
    each = value.values() if isinstance(value, Mapping) else ()
    return [one for one in each if isinstance(one, Mapping)]


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


def beside(address: str, file: Path, field: str) -> Path | None:
    """Return the file or folder that an address leads to beside a manifest, if there is one.

    Whoever wrote the manifest need not be who sends it, so none is taken from elsewhere: raises
    Misused, which names the `field`, for what is here but not below the manifest's folder.
    """
    path = _place_of(address, file)
    if path is None or not path.exists():
        return None
    if not path.resolve().is_relative_to(file.parent.resolve()):
        allowed = f"a file below {file.parent}/, or an address that `mlscope artifacts put` prints"
        raise Misused(f"{file}: {field}: {address} leads to {path.resolve()}, allowed: {allowed}")
    return path


def _source_beside(address: str, file: Path) -> Path | None:
    """Return where a source lies beside its manifest, or below what agents read in place."""
    path = _place_of(address, file)
    if path is not None and path.exists() and is_in_place(path, _folders()):
        return path
    return beside(address, file, "source.address")


def _place_of(address: str, file: Path) -> Path | None:
    try:
        source = parse(address)
    except BadAddress:
        return None
    return file.parent / source.path if isinstance(source, FileSource) else None


def _with_content(sample: Manifest, file: Path, field: str) -> Manifest:
    found = beside(sample["path"], file, field) if sample.get("path") else None
    if found is None:
        return sample
    body = found.read_bytes()
    rest = {name: value for name, value in sample.items() if name != "path"}
    return {**rest, "content": base64.b64encode(body).decode()}


def _with_inputs(
    sample: Manifest, file: Path, field: str, arguments: argparse.Namespace
) -> Manifest:
    """Return a sample of several inputs, each file of it put up that lies beside the manifest."""
    sent = {}
    for name, said in sample.get("inputs", {}).items():
        address, found = said["path"], beside(said["path"], file, f"{field}.{name}.path")
        if found is not None and not stay(arguments):
            with contextlib.suppress(NoCluster):
                address, _ = put_file(arguments, "datasets", found)
        sent[name] = {**said, "path": address}
    return {**sample, "inputs": sent} if sent else sample
