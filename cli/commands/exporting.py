"""`mlscope schemas`: the contract as files for other languages."""

import argparse
from pathlib import Path

import schemas
from cli import exits
from cli.failures import Misused
from schemas.export import documents
from schemas.message import VERSION


def export(arguments: argparse.Namespace) -> int:
    """Write every file of the contract, or list their names."""
    found = documents()
    folder = _folder(arguments)
    if folder is None:
        print("\n".join(found))
        return exits.OK
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in found.items():
        (folder / name).write_text(text, "utf-8")
    print(f"{folder}: {len(found)} files")
    return exits.OK


def _folder(arguments: argparse.Namespace) -> Path | None:
    if arguments.out is not None and arguments.write:
        raise Misused("--write and --out exclude each other")
    if arguments.write:
        return Path(schemas.__file__).parent / f"v{VERSION}"
    folder: Path | None = arguments.out
    return folder
