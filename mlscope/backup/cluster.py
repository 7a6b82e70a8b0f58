"""Makes and restores the backup of a whole cluster: its streams, then its database (I/O)."""

import asyncio
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from mlscope.backup.archive import FORMAT, Contents, reading, writing
from mlscope.backup.database import check_database, load_database, note_saved, save_database
from mlscope.backup.errors import NewerBackup, NotEmpty
from mlscope.bus.nats.admin import Admin
from mlscope.bus.streams import BATCHES, BUCKETS, STORES, STREAMS, UPLOADS
from mlscope.settings import Settings

_LOG = "EVALUATIONS"
_BATCHES = ("TRACES", "QUERIES")
_CHUNK_BYTES = 128 * 1024


def stream_order() -> list[str]:
    """Return the streams of a backup, in the order they are read.

    The log comes first: what its facts refer to was stored before them, and so is read. Leases and
    uploads are not in a backup; both end by themselves.
    """
    names = [stream.name for stream in STREAMS if stream.name != _LOG]
    buckets = [f"KV_{bucket.name}" for bucket in BUCKETS if not bucket.ttl_s]
    stores = [f"OBJ_{store.name}" for store in STORES if store.name not in (UPLOADS, BATCHES)]
    return [_LOG, *names, *buckets, f"OBJ_{BATCHES}", *stores]


async def back_up(settings: Settings, path: Path) -> Contents:
    """Write a backup of the running cluster of `settings` to `path`, and return what it holds.

    The key of `settings` is the provisioner's. Raises BusError, OSError and psycopg's errors.
    """
    made_at = datetime.now(UTC).isoformat(timespec="seconds")
    contents = Contents(version("mlscope"), made_at)
    with writing(path, contents) as writer:
        admin = Admin(settings)
        await admin.open()
        try:
            names = await admin.stream_names()
            for name in filter(names.__contains__, stream_order()):
                with writer.entry(f"streams/{name}") as entry:
                    contents.streams[name] = await admin.snapshot_stream(name, entry.write)
        finally:
            await admin.close()
        saved = await asyncio.to_thread(save_database, settings.database_conninfo(), writer)
    await asyncio.to_thread(note_saved, settings.database_conninfo(), saved, _last_of(contents))
    return contents


async def restore(settings: Settings, path: Path) -> Contents:
    """Restore a backup into the servers of `settings`: no streams, and a migrated, empty database.

    All of it is checked before anything is changed. Raises BackupError, BusError, OSError and
    psycopg's errors.
    """
    address = settings.database_conninfo()
    with reading(path) as reader:
        # A stream of another name could take in every subject, or send on what it takes.
        unknown = reader.contents.streams.keys() - {*stream_order()}
        if reader.contents.format > FORMAT or unknown:
            raise NewerBackup(reader.contents.made_by)
        await asyncio.to_thread(check_database, address, reader)
        admin = Admin(settings)
        await admin.open()
        try:
            if existing := set(await admin.stream_names()) & set(reader.contents.streams):
                raise NotEmpty(f"the streams {', '.join(sorted(existing))}")
            for name, described in reader.contents.streams.items():
                chunks = reader.chunks(f"streams/{name}", _CHUNK_BYTES)
                await admin.restore_stream(name, described, chunks)
        finally:
            await admin.close()
        saved = await asyncio.to_thread(load_database, address, reader)
        await asyncio.to_thread(note_saved, address, saved, _last_of(reader.contents))
        return reader.contents


def _last_of(contents: Contents) -> dict[str, int]:
    """Return the last sequence of each stream of batches in a backup.

    Rows are copied after the streams: what had left these is among the rows.
    """
    streams = (name for name in _BATCHES if name in contents.streams)
    return {name: int(contents.streams[name]["state"]["last_seq"]) for name in streams}
