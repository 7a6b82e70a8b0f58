"""`python -m cli.catalog torchvision timm keras packages networks --out manifests/models`."""

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from cli.catalog import keras, networks, packages, timm, torchvision
from cli.catalog.entries import IMAGENET_LABELS, Entry, LabelFiles, text_of

Described = tuple[str, Iterator[Entry]]


def _torchvision(labels: LabelFiles) -> Described:
    found: Any = _imported_torchvision()
    return torchvision.package(found), torchvision.entries(found, labels)


def _timm(labels: LabelFiles) -> Described:
    _imported_torchvision()
    found: Any = import_module("timm")
    return timm.package(found), timm.entries(found, import_module("torch"), labels)


def _keras(labels: LabelFiles) -> Described:
    found: Any = import_module("keras")
    return keras.package(found), keras.entries(found, labels)


def _packages(labels: LabelFiles) -> Described:
    return packages.package(), packages.entries(labels)


def _networks(_: LabelFiles) -> Described:
    return networks.package(), networks.entries()


SOURCES: dict[str, Callable[[LabelFiles], Described]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "keras": _keras,
    "packages": _packages,
    "networks": _networks,
}


def _imported_torchvision() -> Any:
    """Return torchvision, beside a torch that its operators are not built for as well."""
    try:
        return import_module("torchvision")
    except RuntimeError:
        for name in [each for each in sys.modules if each.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
    library = torchvision.declare_operators(import_module("torch"))
    found: Any = import_module("torchvision")
    found.declared_operators = library
    return found


def write(source: str, folder: Path) -> int:
    """Write a source's manifests and label files anew; return how many manifests."""
    imagenet = folder / IMAGENET_LABELS.removeprefix("file:")
    labels = LabelFiles(source, hashlib.sha256(imagenet.read_bytes()).hexdigest())
    package, entries = SOURCES[source](labels)
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
    parser = argparse.ArgumentParser(prog="python -m cli.catalog", description=__doc__)
    parser.add_argument("sources", nargs="+", choices=sorted(SOURCES))
    parser.add_argument("--out", type=Path, required=True, help="the folder of model manifests")
    arguments = parser.parse_args()
    for source in arguments.sources:
        print(f"{source}: {write(source, arguments.out)} manifests", file=sys.stderr)


if __name__ == "__main__":
    main()
