"""`mlscope schemas`: the message contract as files for other languages."""

import argparse
from pathlib import Path

import schemas as contract
from cli import exits
from cli.failures import Misused
from schemas.export.documents import documents
from schemas.message import VERSION


def schemas(arguments: argparse.Namespace) -> int:
    """Write every file of the contract, or without a folder list their names."""
    if arguments.out is not None and arguments.write:
        raise Misused("--write and --out exclude each other")
    folder: Path | None = arguments.out
    if arguments.write:
        folder = Path(contract.__file__).parent / f"v{VERSION}"
    files = documents()
    if folder is None:
        print("\n".join(files))
        return exits.OK
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    print(f"{folder}: {len(files)} files")
    return exits.OK
