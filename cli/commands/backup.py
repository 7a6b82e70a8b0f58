"""`mlscope backup FILE` and `mlscope restore FILE`: what a cluster knows, in one file."""

import argparse
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cli import exits
from cli.cluster.plan import PROVISIONER, ClusterPlan, Programs
from cli.cluster.ports import chosen_ports
from cli.cluster.processes import Child, wait_until
from cli.cluster.servers.postgres_home import find_home
from cli.cluster.state import folder_lock
from cli.inputs.connection import folder_of, is_broker_named, provisioner_settings
from mlscope.backup.archive import Contents, reading
from mlscope.settings import Settings

_SERVERS_WITHIN_S = 60.0


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


@contextmanager
def servers_of(folder: Path, environ: Mapping[str, str]) -> Iterator[Settings]:
    """Run the servers of the cluster in `folder`, and lend the provisioner's settings.

    `environ` are our environment variables. Raises AlreadyUp, NotReady.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (
        folder_lock(folder),
        chosen_ports(folder, environ) as ports,
        ExitStack() as started,
    ):
        plan = ClusterPlan(folder, ports, environ, Programs())
        for program in plan.servers():
            child = Child(program.command())
            started.callback(child.stop, program.stop_within_s)
            wait_until(program.is_ready, child, _SERVERS_WITHIN_S)
        yield Settings.read(plan.environ(PROVISIONER))


def move_data_aside(folder: Path) -> list[Path]:
    """Move the servers' data of a stopped cluster aside, and return where they are now.

    Raises AlreadyUp.
    """
    suffix = time.strftime(".before-%Y%m%d-%H%M%S")
    with folder_lock(folder):
        places = [place for place in (folder / "nats", find_home(folder).data) if place.exists()]
        return [place.rename(place.with_name(place.name + suffix)) for place in places]
