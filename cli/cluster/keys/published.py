"""The admission of a cluster in containers; `compose.listen.yaml` runs it.

    DATA/broker.json     the broker's layout and the services' public keys, from `mlscope keys`
    DATA/cluster.json    what `mlscope agents` and `mlscope people` read here of the cluster
    DATA/keys/           members, invitations and people, as `mlscope up` keeps them
    BROKER/nats.conf     the broker's configuration for the keys, members and people of now
    BROKER/asked         another text each time that the broker is to read its configuration

No supervisor runs in containers, so this process does what it does for those who join: it writes
the broker's configuration, after `SIGUSR1` and every few seconds. It cannot signal the broker,
whose container watches `asked` instead.
"""

import asyncio
import json
import logging
import os
import secrets
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from cli.cluster.keys.admission import serve
from cli.cluster.keys.secret_files import write_secret
from cli.cluster.processes import identify
from cli.cluster.servers.nats_conf import NatsLayout
from cli.cluster.servers.nats_server import conf_with_members, write_if_changed
from cli.cluster.state import ClusterState, write_state
from mlscope.bus.access.permissions import OPERATOR
from mlscope.logs import set_up_logging
from mlscope.settings import Settings

_log = logging.getLogger(__name__)
_LOOK_S = 3.0
"""Invitations end by time."""


@dataclass(frozen=True, slots=True)
class PublishedBroker:
    """A lone broker that other machines reach: `layout` and the services' public `keys`."""

    layout: NatsLayout
    keys: Mapping[str, str]

    def text(self) -> str:
        """Return the text of `broker.json`; it has the secret path of the monitor."""
        return json.dumps({"layout": asdict(self.layout), "keys": dict(self.keys)})

    @classmethod
    def read(cls, data: Path) -> Self:
        """Return what `broker.json` of the folder `data` says."""
        fields = json.loads((data / "broker.json").read_text("utf-8"))
        return cls(NatsLayout(**fields["layout"]), fields["keys"])


def published_state(broker: PublishedBroker, settings: Settings, url: str) -> ClusterState:
    """Return the state of a cluster whose broker other machines reach at `url`.

    `settings` are a requester's in the containers' own network, where the monitor is asked.
    """
    layout, host = broker.layout, urlsplit(settings.nats_url).hostname
    return ClusterState(
        phase="running",
        supervisor=identify(os.getpid()),
        nats_url=url,
        monitor_url=f"http://{host}:{layout.monitor_port}/{layout.monitor_path}",
        database_url="",
        database_password_file="",
        gateway_url=settings.gateway_url,
        requester_seed_file=str(settings.nats_seed_file or ""),
        ports={},
        authority_file=str(settings.tls_authority_file or ""),
    )


async def keep_written(data: Path, folder: Path, news: asyncio.Event) -> None:
    """Write the broker's configuration into `folder` and ask for its reading, until cancelled.

    `data` has the members; `news` is set when they have changed. The broker is asked once more at
    the look after a change: nats-server (2.15) gives an account that a reload adds its imports with
    the next reload, and two signals at once are one.
    """
    was_new, is_new = False, True
    while True:
        is_new |= news.is_set()
        news.clear()
        try:
            broker = PublishedBroker.read(data)
            text = conf_with_members(broker.layout, broker.keys, data)
            is_new |= write_if_changed(folder / "nats.conf", text)
            if is_new or was_new:
                write_secret(folder / "asked", secrets.token_hex(8))
            was_new, is_new = is_new, False
        except (OSError, ValueError, KeyError) as error:
            # A full disk, or a file of a member that is none, must not end what runs.
            reason = f"{type(error).__name__}: {error}"
            _log.warning("members not written; trying again", extra={"reason": reason})
        with suppress(TimeoutError):
            await asyncio.wait_for(news.wait(), _LOOK_S)


async def admit_published(settings: Settings, folder: Path, url: str) -> None:
    """Write the broker's configuration into `folder`, and admit machines, until SIGTERM.

    `settings` are a requester's; other machines reach the broker at `url`.
    """
    data, news = settings.data_folder, asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, news.set)
    write_state(data, published_state(PublishedBroker.read(data), settings, url))
    operator = replace(settings, nats_seed_file=data / "keys" / f"{OPERATOR}.nk")
    async with asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(keep_written(data, folder, news))
        await serve(operator)
        writing.cancel()


if __name__ == "__main__":
    environ_settings = Settings.read(os.environ)
    set_up_logging("admission", environ_settings.log_level, form=environ_settings.log_format)
    asyncio.run(admit_published(environ_settings, Path(sys.argv[1]), sys.argv[2]))
