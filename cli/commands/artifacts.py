"""`mlscope artifacts put|ls|rm`: the artifact repository, with the curator's key."""

import argparse
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cli import exits
from cli.failures import Misused
from cli.inputs.connection import curator_settings
from cli.printing.output import Rows, write_rows
from cli.printing.transfers import TransferLine
from mlscope.assets.errors import BadAddress
from mlscope.bus.access.permissions import CURATOR

if TYPE_CHECKING:
    from mlscope.assets.artifacts import Artifacts

_COLUMNS = ("artifact", "size_bytes", "sha256")


@asynccontextmanager
async def _open_artifacts(arguments: argparse.Namespace) -> "AsyncIterator[Artifacts]":
    from mlscope.assets.artifacts import connect

    async with connect(curator_settings(arguments), CURATOR, timeout_s=10.0) as artifacts:
        yield artifacts


async def put(arguments: argparse.Namespace) -> int:
    """Store a file under a name."""
    path: Path = arguments.file
    name: str = arguments.name or path.name
    async with _open_artifacts(arguments) as artifacts:
        try:
            with TransferLine(sys.stderr, name) as line:
                artifact = await artifacts.put(name, path, line.show)
        except BadAddress as error:
            raise Misused(str(error)) from None
    print(f"artifact://{artifact.name}  sha256:{artifact.sha256}")
    return exits.OK


async def ls(arguments: argparse.Namespace) -> int:
    """List every artifact."""
    async with _open_artifacts(arguments) as artifacts:
        rows = tuple(
            (artifact.name, artifact.size_bytes, artifact.sha256)
            for artifact in await artifacts.ls()
        )
    write_rows(Rows(_COLUMNS, rows, units=("", "B", "")), arguments.output)
    return exits.OK


async def rm(arguments: argparse.Namespace) -> int:
    """Remove artifacts."""
    async with _open_artifacts(arguments) as artifacts:
        for name in arguments.names:
            await artifacts.rm(name)
    return exits.OK
