"""`python -m cli.catalog torchvision timm keras --out manifests/models`."""

import argparse
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from cli.catalog import keras, timm, torchvision
from cli.catalog.entries import Entry, text_of


def _torchvision() -> tuple[str, Iterator[Entry]]:
    found: Any = import_module("torchvision")
    return torchvision.package(found), torchvision.entries(found)


def _timm() -> tuple[str, Iterator[Entry]]:
    found: Any = import_module("timm")
    return timm.package(found), timm.entries(found, import_module("torch"))


def _keras() -> tuple[str, Iterator[Entry]]:
    found: Any = import_module("keras")
    return keras.package(found), keras.entries(found)


SOURCES: dict[str, Callable[[], tuple[str, Iterator[Entry]]]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "keras": _keras,
}


def write(source: str, folder: Path) -> int:
    """Write a source's manifests anew; return how many."""
    package, entries = SOURCES[source]()
    written = 0
    target = folder / source
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for entry in entries:
        (target / f"{entry.name}.yml").write_text(text_of(entry, package), "utf-8")
        written += 1
    return written


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
