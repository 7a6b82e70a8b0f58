"""`mlscope backup FILE` and `mlscope restore FILE`: what a cluster knows, in one file."""

import argparse
import os
from contextlib import ExitStack

from cli import exits
from cli.cluster.restoring import move_data_aside, servers_of
from cli.inputs.connection import folder_of, is_broker_named, provisioner_settings
from mlscope.backup.archive import Contents, reading
from mlscope.settings import Settings


async def backup(arguments: argparse.Namespace) -> int:
    """Back up the local cluster, or the one of the environment variables, while it runs."""
    from mlscope.backup.cluster import back_up

    contents = await back_up(provisioner_settings(arguments.data), arguments.file)
    size_mb = arguments.file.stat().st_size / 1e6
    print(f"{arguments.file}: {_summary(contents)}, {size_mb:.1f} MB")
    return exits.OK


async def restore(arguments: argparse.Namespace) -> int:
    """Restore a backup into an empty cluster: a local one that is down, or one without services."""
    from mlscope.backup.cluster import restore as restore_backup
    from services.analyzer.store import migrate as migrate_analyzer
    from services.collector.store import migrate as migrate_collector

    with reading(arguments.file):
        pass  # a file that is damaged must be refused before any data move aside
    with ExitStack() as running:
        if is_broker_named(arguments.data):
            settings = Settings.read(os.environ)
        else:
            folder = folder_of(arguments.data)
            for place in move_data_aside(folder) if arguments.replace and folder.exists() else ():
                print(f"moved aside: {place}")
            settings = running.enter_context(servers_of(folder, os.environ))
        migrate_collector(settings.database_conninfo())
        migrate_analyzer(settings.database_conninfo())
        contents = await restore_backup(settings, arguments.file)
    print(f"restored {_summary(contents)}, as of {contents.made_at}")
    return exits.OK


def _summary(contents: Contents) -> str:
    messages = sum(described["state"]["messages"] for described in contents.streams.values())
    return f"{messages} messages of {len(contents.streams)} streams, {len(contents.tables)} tables"
