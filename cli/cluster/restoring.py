"""The servers of a local cluster alone, empty, for a backup to be restored into (I/O)."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cli.cluster.plan import PROVISIONER, ClusterPlan, Programs
from cli.cluster.ports import chosen_ports
from cli.cluster.processes import Child, wait_until
from cli.cluster.servers.postgres_home import find_home
from cli.cluster.state import folder_lock
from mlscope.settings import Settings

_SERVERS_WITHIN_S = 60.0


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
