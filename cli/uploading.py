"""Files that a request is too small for, put where agents find them.

Whoever has the local cluster's own keys puts them among the artifacts; whoever has a requester's
key alone, among the uploads, which are bounded and gone after a day.
"""

import argparse
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mlscope.assets.partial import Progress
from mlscope.bus.permissions import CURATOR
from mlscope.client.connection import REQUESTER, find_settings

if TYPE_CHECKING:
    from mlscope.assets.artifacts import Artifacts


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where files are put; `is_kept` says that they stay there until they are removed."""

    store: "Artifacts"
    is_kept: bool

    async def put(self, name: str, path: Path, progress: Progress) -> str:
        """Put a file and return its address; `name` is what it is called where files are kept.

        What is there under a name that its content gives is not sent again. Raises BusError,
        OSError.
        """
        from mlscope.assets.uploads import upload_name

        if not self.is_kept:
            name = upload_name(path)
        elif name in {each.name for each in await self.store.ls()}:
            return f"artifact://{name}"
        artifact = await self.store.put(name, path, progress)
        return f"artifact://{artifact.name}"

    async def rm(self, address: str) -> None:
        """Remove a file, where that is for us to do."""
        if self.is_kept:
            await self.store.rm(address.removeprefix("artifact://"))


@asynccontextmanager
async def opened_shelf(arguments: argparse.Namespace) -> AsyncIterator[Shelf]:
    """Open the place for which there is a key. Raises NoCluster, Unreachable, NotPermitted."""
    from mlscope.assets.artifacts import connect
    from mlscope.assets.uploads import connect_uploads

    settings = find_settings(
        os.environ, url=arguments.url, seed_file=arguments.seed_file, data=arguments.data
    )
    is_elsewhere = arguments.url or arguments.seed_file or os.environ.get("MLSCOPE_NATS_URL")
    own = settings.data_folder / "keys" / f"{CURATOR}.nk"
    if own.is_file() and not is_elsewhere:
        settings = replace(settings, nats_seed_file=own)
        async with connect(settings, CURATOR, timeout_s=10.0) as artifacts:
            yield Shelf(artifacts, is_kept=True)
        return
    async with connect_uploads(settings, REQUESTER, timeout_s=10.0) as uploads:
        yield Shelf(uploads, is_kept=False)
