"""`mlscope backup FILE` and `mlscope restore FILE`: what a cluster knows, in one file."""

import argparse
import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from cli import exits
from cli.cluster.plan import PROVISIONER
from cli.cluster.restoring import move_data_aside, servers_of
from cli.cluster.state import running_state
from mlscope.backup.archive import Contents
from mlscope.settings import Settings


async def backup(arguments: argparse.Namespace) -> int:
    """Back up the local cluster, or the one of the environment variables, while it runs."""
    from mlscope.backup.cluster import back_up

    contents = await back_up(_running_settings(arguments.data), arguments.file)
    size_mb = arguments.file.stat().st_size / 1e6
    print(f"{arguments.file}: {_summary(contents)}, {size_mb:.1f} MB")
    return exits.OK


async def restore(arguments: argparse.Namespace) -> int:
    """Restore a backup into an empty cluster: a local one that is down, or one without services."""
    from mlscope.backup.cluster import restore as restore_backup
    from services.analyzer.store import migrate as migrate_analyzer
    from services.collector.store import migrate as migrate_collector

    with ExitStack() as running:
        if _is_named(arguments.data):
            settings = Settings.read(os.environ)
        else:
            folder = _folder(arguments.data)
            for place in move_data_aside(folder) if arguments.replace and folder.exists() else ():
                print(f"moved aside: {place}")
            settings = running.enter_context(servers_of(folder, os.environ))
        migrate_collector(settings.database_conninfo())
        migrate_analyzer(settings.database_conninfo())
        contents = await restore_backup(settings, arguments.file)
    print(f"restored {_summary(contents)}, as of {contents.made_at}")
    return exits.OK


def _running_settings(data: str) -> Settings:
    """Return the provisioner's settings of the cluster that runs. Raises NotUp."""
    settings = Settings.read(os.environ)
    if _is_named(data):
        return settings
    folder = _folder(data)
    state = running_state(folder)
    password = state.database_password_file
    return replace(
        settings,
        nats_url=state.nats_url,
        nats_seed_file=folder / "keys" / f"{PROVISIONER}.nk",
        tls_authority_file=Path(state.authority_file) if state.authority_file else None,
        database_url=state.database_url,
        database_password_file=Path(password) if password else settings.database_password_file,
    )


def _is_named(data: str) -> bool:
    """Tell whether the environment names a broker, as in containers, and no folder is given."""
    return not data and bool(os.environ.get("MLSCOPE_NATS_URL"))


def _folder(data: str) -> Path:
    return (Path(data) if data else Settings.read(os.environ).data_folder).resolve()


def _summary(contents: Contents) -> str:
    messages = sum(described["state"]["messages"] for described in contents.streams.values())
    return f"{messages} messages of {len(contents.streams)} streams, {len(contents.tables)} tables"
