"""Files that are too large for a request, uploaded to where agents find them.

With the local cluster's own keys they become artifacts; with a requester's key only, they become
uploads, which are limited in size and deleted after a day.
"""

import argparse
import asyncio
import hashlib
import io
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
from cli.printing.transfers import TransferLine
from mlscope.assets.partial import Progress
from mlscope.bus.access.permissions import CURATOR
from mlscope.bus.errors import NotPermitted
from mlscope.client.asking import missing_right
from mlscope.client.connection import REQUESTER, find_settings
from mlscope.client.errors import Denied
from mlscope.datasets.errors import DatasetError
from mlscope.datasets.readers.folder import paths_below
from schemas.request import Evaluate

if TYPE_CHECKING:
    from mlscope.assets.artifacts import Artifacts

Members = Mapping[str, Path]
"""Files by their names in an archive."""


@dataclass(frozen=True, slots=True)
class UploadStore:
    """A store for files; with `is_permanent` they stay until they are removed."""

    store: "Artifacts"
    is_permanent: bool

    async def put(self, name: str, path: Path, progress: Progress) -> str:
        """Store a file and return its address.

        `name`: its name in a permanent store, where an existing file of this name is not sent
        again; `path`: the file; `progress`: called with the bytes sent. Raises BusError, OSError.
        """
        from mlscope.assets.uploads import upload_name

        if not self.is_permanent:
            name = upload_name(path)
        elif name in {artifact.name for artifact in await self.store.ls()}:
            return f"artifact://{name}"
        artifact = await self.store.put(name, path, progress)
        return f"artifact://{artifact.name}"

    async def rm(self, address: str) -> None:
        """Remove a file from a permanent store; others expire by themselves."""
        if self.is_permanent:
            await self.store.rm(address.removeprefix("artifact://"))


@asynccontextmanager
async def open_store(arguments: argparse.Namespace) -> AsyncIterator[UploadStore]:
    """Open the store that our key may write to. Raises NoCluster, Unreachable, NotPermitted."""
    from mlscope.assets.artifacts import connect
    from mlscope.assets.uploads import connect_uploads

    settings = find_settings(
        os.environ, url=arguments.url, seed_file=arguments.seed_file, data=arguments.data
    )
    variables = ("MLSCOPE_NATS_URL", "MLSCOPE_NATS_SEED_FILE")
    is_named = arguments.url or arguments.seed_file or any(map(os.environ.get, variables))
    curator_key = settings.data_folder / "keys" / f"{CURATOR}.nk"
    if curator_key.is_file() and not is_named:
        settings = replace(settings, nats_seed_file=curator_key)
        async with connect(settings, CURATOR, timeout_s=10.0) as artifacts:
            yield UploadStore(artifacts, is_permanent=True)
        return
    async with connect_uploads(settings, REQUESTER, timeout_s=10.0) as uploads:
        yield UploadStore(uploads, is_permanent=False)


def put_archive(arguments: argparse.Namespace, kind: str, members: Members) -> tuple[str, str]:
    """Upload files as one archive; return its address and `sha256:…`.

    `arguments` name the cluster; `kind` begins the archive's name; `members` are its files.
    Raises as `put_file`.
    """
    with tempfile.TemporaryDirectory(prefix="mlscope-") as folder:
        archive = Path(folder, "sent.tar")
        write_archive(members, archive)
        return put_file(arguments, kind, archive, f"the {kind.removesuffix('s')}'s files")


def put_file(
    arguments: argparse.Namespace, kind: str, path: Path, shown_name: str = ""
) -> tuple[str, str]:
    """Upload the file at `path`; return its address and `sha256:…`.

    `arguments` name the cluster, and may be quiet; `kind` begins the file's name. Progress shows
    `shown_name`, or the name of `path`. Raises NoCluster, Unreachable, NotPermitted, Denied,
    OSError.
    """

    async def put() -> tuple[str, str]:
        async with open_store(arguments) as store:
            sha256 = await asyncio.to_thread(digest_of, path)
            name = f"{kind}/{sha256}{path.suffix if path.suffix[1:].isalnum() else ''}"
            stream = io.StringIO() if getattr(arguments, "quiet", False) else sys.stderr
            with TransferLine(stream, shown_name or path.name, verb="sent") as line:
                try:
                    return await store.put(name, path, line.show), f"sha256:{sha256}"
                except NotPermitted as error:
                    raise Denied("send files", missing_right(Evaluate.verb)) from error

    return asyncio.run(put())


def digest_of(path: Path) -> str:
    """Return a file's sha256 in hexadecimal. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_archive(members: Members, archive_path: Path) -> str:
    """Write files as a tar archive and return its sha256.

    The same files give the same archive: sorted names, no times, no owners.
    """
    with tarfile.open(archive_path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, file in sorted(members.items()):
            member = tarfile.TarInfo(name)
            member.size = file.stat().st_size
            with file.open("rb") as body:
                archive.addfile(member, body)
    return digest_of(archive_path)


def members_of(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files below a folder with their relative names; a single file with ''.

    Raises Misused.
    """
    if path.is_file():
        yield "", path
        return
    try:
        for file in paths_below(path, ()):
            yield file.relative_to(path).as_posix(), file
    except DatasetError as error:
        advice = f"send a copy without links: cp -rL {path} COPY"
        raise Misused(f"{path}: {error}; {advice}") from None


def files_stay(arguments: argparse.Namespace) -> bool:
    """Tell whether files are not sent: a plan is for a machine without a broker."""
    return bool(getattr(arguments, "files_stay", False))
