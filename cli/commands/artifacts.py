"""`mlscope artifacts put|ls|rm`: the artifact repository, with the curator's key."""

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cli import exits
from cli.failures import Misused
from cli.output import Rows, write_rows
from cli.transfers import TransferLine
from mlscope.assets.errors import BadAddress
from mlscope.bus.permissions import CURATOR
from mlscope.client.connection import find_settings
from mlscope.settings import Settings

if TYPE_CHECKING:
    from mlscope.assets.artifacts import Artifact, Artifacts

_COLUMNS = ("artifact", "size_bytes", "sha256")


def curator_settings(arguments: argparse.Namespace) -> Settings:
    """Return the settings of the connection that may change artifacts.

    The key is the one named, else the local cluster's, else the one of the variables. Raises
    NoCluster, InvalidSetting.
    """
    settings = find_settings(
        os.environ, url=arguments.url, seed_file=arguments.seed_file, data=arguments.data
    )
    own = settings.data_folder / "keys" / f"{CURATOR}.nk"
    if arguments.seed_file or not own.is_file():
        return settings
    return replace(settings, nats_seed_file=own)


@asynccontextmanager
async def _opened(arguments: argparse.Namespace) -> "AsyncIterator[Artifacts]":
    from mlscope.assets.artifacts import connect

    async with connect(curator_settings(arguments), CURATOR, timeout_s=10.0) as opened:
        yield opened


def put(arguments: argparse.Namespace) -> int:
    """Store a file under a name."""
    return asyncio.run(_put(arguments))


async def _put(arguments: argparse.Namespace) -> int:
    path: Path = arguments.file
    name: str = arguments.name or path.name
    async with _opened(arguments) as artifacts:
        try:
            with TransferLine(sys.stderr, name) as line:
                artifact = await artifacts.put(name, path, line.show)
        except BadAddress as error:
            raise Misused(str(error)) from None
    print(f"artifact://{artifact.name}  sha256:{artifact.sha256}")
    return exits.OK


def ls(arguments: argparse.Namespace) -> int:
    """List every artifact."""
    return asyncio.run(_ls(arguments))


async def _ls(arguments: argparse.Namespace) -> int:
    async with _opened(arguments) as artifacts:
        write_rows(rows_of(await artifacts.ls()), arguments.output)
    return exits.OK


def rows_of(found: "list[Artifact]") -> Rows:
    """Return artifacts as they are printed."""
    rows = tuple((each.name, each.size_bytes, each.sha256) for each in found)
    return Rows(_COLUMNS, rows, units=("", "B", ""))


def rm(arguments: argparse.Namespace) -> int:
    """Remove artifacts."""
    return asyncio.run(_rm(arguments))


async def _rm(arguments: argparse.Namespace) -> int:
    async with _opened(arguments) as artifacts:
        for name in arguments.names:
            await artifacts.rm(name)
    return exits.OK
