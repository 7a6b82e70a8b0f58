"""`python -m tools.catalog torchvision timm keras packages networks --out manifests/models`."""

import argparse
import hashlib
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from tools.catalog import keras, networks, packages, timm, torchvision
from tools.catalog.entries import IMAGENET_LABELS, Entry, LabelFiles, text_of

SOURCES = ("torchvision", "timm", "keras", "packages", "networks")


def described(source: str, labels: LabelFiles) -> tuple[str, Iterator[Entry]]:
    """Return the package and version behind a source, and its entries."""
    match source:
        case "torchvision":
            module = _imported_torchvision()
            return torchvision.package(module), torchvision.entries(module, labels)
        case "timm":
            _imported_torchvision()
            module = import_module("timm")
            return timm.package(module), timm.entries(module, import_module("torch"), labels)
        case "keras":
            module = import_module("keras")
            return keras.package(module), keras.entries(module, labels)
        case "packages":
            return packages.source_packages(), packages.entries(labels)
    return networks.source_packages(), networks.entries()


def _imported_torchvision() -> Any:
    """Return torchvision, beside a torch that its operators are not built for as well."""
    try:
        return import_module("torchvision")
    except RuntimeError:
        for name in [module for module in sys.modules if module.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
    library = torchvision.declare_operators(import_module("torch"))
    package: Any = import_module("torchvision")
    package.declared_operators = library
    return package


def write(source: str, folder: Path) -> int:
    """Write a source's manifests and label files anew; return how many manifests."""
    imagenet = folder / IMAGENET_LABELS.removeprefix("file:")
    labels = LabelFiles(source, hashlib.sha256(imagenet.read_bytes()).hexdigest())
    package, entries = described(source, labels)
    texts = {f"{entry.name}.yml": text_of(entry, package) for entry in entries}
    target = folder / source
    target.mkdir(parents=True, exist_ok=True)
    for path in target.glob("*.yml"):
        path.unlink()
    for name, text in {**texts, **labels.texts}.items():
        (target / name).write_text(text, "utf-8")
    return len(texts)


def main() -> None:
    """Write the catalog of the sources that are named."""
    parser = argparse.ArgumentParser(prog="python -m tools.catalog", description=__doc__)
    parser.add_argument("sources", nargs="+", choices=sorted(SOURCES))
    parser.add_argument("--out", type=Path, required=True, help="the folder of model manifests")
    arguments = parser.parse_args()
    for source in arguments.sources:
        print(f"{source}: {write(source, arguments.out)} manifests", file=sys.stderr)


if __name__ == "__main__":
    main()
