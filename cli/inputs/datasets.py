"""A dataset that the user names as a folder or file: described, and sent to the agents.

Agents of this host read what is below MLSCOPE_DATASET_FOLDERS in place. Otherwise small datasets
travel in the request, and larger ones are uploaded as an archive (`cli.inputs.uploads`).
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
from cli.inputs.uploads import files_stay, members_of, put_archive, put_file
from mlscope.assets.addresses import FileSource, parse
from mlscope.assets.errors import BadAddress
from mlscope.client.errors import NoCluster
from mlscope.datasets.dataset import Dataset
from mlscope.datasets.errors import DatasetError
from mlscope.datasets.layout_detection import detect_reader
from mlscope.datasets.opening import open_dataset
from mlscope.settings import Settings

INLINE_BYTES = 1 << 20
"""Maximum bytes of samples in a request; base64 makes them a third longer."""

_INLINE_READERS = ("files", "image_folder", "imagenet")
"""Readers whose samples are unchanged files, with classes as truths."""

Manifest = dict[str, Any]

_NO_FILES: Mapping[str, Path] = MappingProxyType({})


def manifest_of_path(path: Path, arguments: argparse.Namespace) -> Manifest:
    """Return a manifest of the dataset at `path`, after sending it to the agents.

    Raises Misused when it cannot be read, ClientError when it cannot be sent.
    """
    try:
        reader, options = detect_reader(path)
        with tempfile.TemporaryDirectory(prefix="mlscope-") as scratch:
            dataset = open_dataset(reader, path, options, scratch=Path(scratch))
            manifest = {"kind": "dataset", "name": name_of(path), "modality": "image"}
            samples = _inline_samples(dataset) if reader in _INLINE_READERS else []
            if samples and not is_in_place(path, _dataset_folders()):
                return {**manifest, "samples": samples}
            source = {"reader": reader, "options": dict(options), "samples": len(dataset)}
            return {**manifest, "source": {**source, **_send(path, arguments)}}
    except DatasetError as error:
        raise Misused(f"--dataset {path}: {error}") from None


def _inline_samples(dataset: Dataset) -> list[Manifest]:
    """Return the samples with their content; none when they exceed `INLINE_BYTES`."""
    samples: list[Manifest] = []
    free_bytes = INLINE_BYTES
    for number in range(len(dataset)):
        body, truth = dataset[number], dataset.truths[number]
        free_bytes -= len(body)
        if free_bytes < 0:
            return []
        sample: Manifest = {"content": base64.b64encode(body).decode()}
        if truth is not None:
            fields = {"name": truth.name, "labels": truth.labels, "classes": truth.classes}
            sample |= {field: value for field, value in fields.items() if value}
        samples.append(sample)
    return samples


def with_samples(manifest: Manifest, file: Path, arguments: argparse.Namespace) -> Manifest:
    """Return a `manifest` from the user's `file`, after sending the files that lie beside it.

    Addresses that lead to no file here stay as they are: they name files below the agent's
    manifests. `arguments` name the cluster. Raises Misused, ClientError.
    """
    if source := manifest.get("source"):
        sent = _sent_source(source, file, arguments)
        if sent:
            return {**manifest, "source": {**source, **sent}}
    samples = [
        _with_content(sample, file, f"samples.{number}.path")
        for number, sample in enumerate(manifest.get("samples", ()))
    ]
    total_bytes = sum(len(sample.get("content", "")) for sample in samples) * 3 // 4
    if total_bytes > INLINE_BYTES:
        allowed = f"up to {INLINE_BYTES}; give the folder as a source instead"
        raise Misused(f"{file}: samples: {total_bytes} bytes of files, allowed: {allowed}")
    samples = [
        _with_inputs(sample, file, f"samples.{number}.inputs", arguments)
        for number, sample in enumerate(samples)
    ]
    return {**manifest, "samples": samples} if samples else manifest


def _sent_source(source: Manifest, file: Path, arguments: argparse.Namespace) -> Manifest:
    """Return the fields of a source that change as its files are sent; {} where none are here."""
    # A source may also lie below a folder that agents read in place.
    path = _relative_path(source["address"], file)
    if path is None or not path.exists() or not is_in_place(path, _dataset_folders()):
        path = file_beside(source["address"], file, "source.address")
    if path is None:
        return {}
    is_packed = source.get("archive") or source.get("reader") == "urls"
    if not is_packed:
        return _send(path, arguments, _files_named_in(source, path))
    if files_stay(arguments):
        return {}
    raise Misused(f"{file}: source: upload it first: mlscope artifacts put {path}")


def _with_content(sample: Manifest, file: Path, field: str) -> Manifest:
    path = file_beside(sample["path"], file, field) if sample.get("path") else None
    if path is None:
        return sample
    without_path = {name: value for name, value in sample.items() if name != "path"}
    without_path.setdefault("name", path.name)
    return {**without_path, "content": base64.b64encode(path.read_bytes()).decode()}


def _with_inputs(
    sample: Manifest, file: Path, field: str, arguments: argparse.Namespace
) -> Manifest:
    """Return a sample with several inputs, after uploading those that lie beside the manifest."""
    inputs = {}
    for name, sample_input in sample.get("inputs", {}).items():
        address = sample_input["path"]
        path = file_beside(address, file, f"{field}.{name}.path")
        if path is not None and not files_stay(arguments):
            with contextlib.suppress(NoCluster):
                address, _ = put_file(arguments, "datasets", path)
        inputs[name] = {**sample_input, "path": address}
    return {**sample, "inputs": inputs} if inputs else sample


def name_of(path: Path) -> str:
    """Return a dataset's name in a manifest, from the name of its folder or file."""
    stem = path.resolve().stem.lower()
    name = "".join(letter if letter.isalnum() else "-" for letter in stem)
    return "-".join(filter(None, name.split("-"))) or "given"


def is_in_place(path: Path, folders: tuple[str, ...]) -> bool:
    """Tell whether agents of this host read `path` in place: below one of `folders`."""
    roots = (Path(folder).expanduser().resolve() for folder in folders)
    return any(path.resolve().is_relative_to(root) for root in roots)


def _dataset_folders() -> tuple[str, ...]:
    return Settings.read(os.environ).dataset_folders


def _send(
    path: Path, arguments: argparse.Namespace, further: Mapping[str, Path] = _NO_FILES
) -> Manifest:
    """Return the source of a dataset: its path if read in place, else the archive it was sent in.

    `further`: files that belong to a dataset of one file, by their paths relative to its folder.
    """
    in_place = {"address": f"file:{path.resolve()}"}
    if is_in_place(path, _dataset_folders()) or files_stay(arguments):
        return in_place
    members = dict(members_of(path)) if path.is_dir() else {**further, path.name: path}
    try:
        address, checksum = put_archive(arguments, "datasets", members)
    except NoCluster:
        return in_place
    member = "" if path.is_dir() else path.name
    return {"address": address, "checksum": checksum, "archive": True, "path": member}


def _files_named_in(source: Manifest, path: Path) -> dict[str, Path]:
    """Return the files that a CSV or its options name, by their paths relative to its folder."""
    if path.is_dir():
        return {}
    options = source.get("options", {})
    inputs = options.get("inputs")
    input_options = inputs.values() if isinstance(inputs, Mapping) else ()
    maps = [options, *(value for value in input_options if isinstance(value, Mapping))]
    columns = {option_map.get("file") for option_map in maps} - {None}
    names = [options.get("class_names"), options.get("labels")]
    if source.get("reader") == "csv" and columns:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, delimiter=options.get("delimiter", ","))
            names += [row.get(column) for row in rows for column in columns]
    files = {path.parent / name for name in names if isinstance(name, str) and name}
    root = path.parent.resolve()
    return {
        file.resolve().relative_to(root).as_posix(): file
        for file in files
        if file.is_file() and file.resolve().is_relative_to(root)
    }


def file_beside(address: str, file: Path, field: str) -> Path | None:
    """Return the file or folder that `address` names relative to the manifest `file`, if any.

    Who wrote the manifest may not be who sends it, so files outside of the manifest's folder are
    never sent, nor hidden ones, as `.ssh/id_rsa`: they raise Misused, which names the `field`.
    """
    path = _relative_path(address, file)
    if path is None or not path.exists():
        return None
    if not path.resolve().is_relative_to(file.parent.resolve()):
        allowed = f"a file below {file.parent}/, or an address that `mlscope artifacts put` prints"
        raise Misused(f"{file}: {field}: {address} leads to {path.resolve()}, allowed: {allowed}")
    within = path.resolve().relative_to(file.parent.resolve())
    if any(part.startswith(".") for part in within.parts):
        allowed = "a file whose name, and whose folders' names, do not begin with a dot"
        raise Misused(f"{file}: {field}: {address} is hidden, allowed: {allowed}")
    return path


def _relative_path(address: str, file: Path) -> Path | None:
    try:
        source = parse(address)
    except BadAddress:
        return None
    return file.parent / source.path if isinstance(source, FileSource) else None
