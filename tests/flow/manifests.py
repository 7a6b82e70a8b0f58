"""Manifests that are wrong on purpose, beside the shipped ones."""

import hashlib
from pathlib import Path
from typing import Any

import yaml

from tests.flow.clusters import SHIPPED, copy_few_manifests

_FREE_BATCH = b"\x0a\x07\x12\x05batch"
_ONE = b"\x0a\x07\x08\x81\x80\x80\x80\x80\x00"


def copied(folder: Path) -> Path:
    """Copy the shipped manifests but most models into `folder`, and add files that are wrong."""
    copy_few_manifests(folder)
    photos = folder / "datasets" / "photos"
    cat = (photos / "chelsea.jpg").read_bytes()
    (photos / "cut.jpg").write_bytes(cat[:2000])
    (photos / "no.jpg").write_bytes(b"no picture at all")
    graph = (folder / "models" / "identity" / "model.onnx").read_bytes()
    assert _FREE_BATCH in graph
    (folder / "models" / "identity" / "one.onnx").write_bytes(graph.replace(_FREE_BATCH, _ONE))
    (folder / "models" / "nonsense.yml").write_text("kind: [model\n\x01")
    broken = {**model("identity"), "name": "broken"}
    broken["inputs"][0]["steps"] = [{"levitate": None, "height": 3}]
    (folder / "models" / "broken.yml").write_text(yaml.safe_dump(broken, sort_keys=False))
    return folder


def model(name: str) -> dict[str, Any]:
    """Return a shipped model's manifest as a request may send it."""
    found: dict[str, Any] = yaml.safe_load((SHIPPED / "models" / f"{name}.yml").read_text())
    return found


def sleepy(**options: Any) -> dict[str, Any]:
    """Return the fields of a request for the example predictor, which does as it is told."""
    manifest = {**model("identity"), "name": "sleepy", "framework": {"name": "sleepy"}}
    return {"model": manifest, "options": options, "warmup": 0}


def dataset(folder: Path, *files: str) -> dict[str, Any]:
    """Return a dataset of files below the manifests folder, with true checksums."""
    samples = [
        {"path": f"photos/{name}", "sha256": sha256(folder / "datasets" / "photos" / name)}
        for name in files
    ]
    return {"kind": "dataset", "name": "mixed", "samples": samples}


def sha256(path: Path) -> str:
    """Return a file's checksum in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
