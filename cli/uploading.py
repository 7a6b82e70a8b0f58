"""Files that a request is too small for, put where agents find them.

Whoever has the local cluster's own keys puts them among the artifacts; whoever has a requester's
key alone, among the uploads, which are bounded and gone after a day.
"""

import argparse
import asyncio
import hashlib
import os
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cli.failures import Misused
from cli.transfers import TransferLine
from mlscope.assets.partial import Progress
from mlscope.bus.permissions import CURATOR
from mlscope.client.connection import REQUESTER, find_settings
from mlscope.datasets.errors import DatasetError
from mlscope.datasets.folder import paths_below

if TYPE_CHECKING:
    from mlscope.assets.artifacts import Artifacts

Members = Mapping[str, Path]
"""Files by what they are called in an archive."""


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


def put_archive(arguments: argparse.Namespace, kind: str, members: Members) -> tuple[str, str]:
    """Put files up as one archive; return its address and `sha256:…`.

    Raises NoCluster, Unreachable, NotPermitted, OSError.
    """
    with tempfile.TemporaryDirectory(prefix="mlscope-") as folder:
        archive = Path(folder, "sent.tar")
        packed(members, archive)
        return put_file(arguments, kind, archive)


def put_file(arguments: argparse.Namespace, kind: str, path: Path) -> tuple[str, str]:
    """Put a file up below a kind's name; return its address and `sha256:…`.

    Raises NoCluster, Unreachable, NotPermitted, OSError.
    """
    return asyncio.run(_put(arguments, kind, path))


async def _put(arguments: argparse.Namespace, kind: str, path: Path) -> tuple[str, str]:
    async with opened_shelf(arguments) as shelf:
        sha256 = await asyncio.to_thread(digest_of, path)
        name = f"{kind}/{sha256}{path.suffix if path.suffix[1:].isalnum() else ''}"
        with TransferLine(sys.stderr, name) as line:
            return await shelf.put(name, path, line.show), f"sha256:{sha256}"


def digest_of(path: Path) -> str:
    """Return a file's sha256. Raises OSError."""
    with path.open("rb") as whole:
        return hashlib.file_digest(whole, "sha256").hexdigest()


def packed(members: Members, into: Path) -> str:
    """Write files as a tar archive and return its sha256.

    The same files give the same archive: names in order, no times, no owners.
    """
    with tarfile.open(into, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, file in sorted(members.items()):
            member = tarfile.TarInfo(name)
            member.size = file.stat().st_size
            with file.open("rb") as body:
                archive.addfile(member, body)
    return digest_of(into)


def members_of(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield what is below a folder by its name there; a file alone by ''. Raises Misused."""
    if path.is_file():
        yield "", path
        return
    try:
        for each in paths_below(path, ()):
            yield each.relative_to(path).as_posix(), each
    except DatasetError as error:
        advice = f"send a copy without links: cp -rL {path} COPY"
        raise Misused(f"{path}: {error}; {advice}") from None


def stay(arguments: argparse.Namespace) -> bool:
    """Say whether files stay where they are: a plan is for a machine without broker."""
    return bool(getattr(arguments, "stays", False))
