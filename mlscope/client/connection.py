"""Finding mlscope and opening a requester's connection to it."""

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError, NotPermitted
from mlscope.client.errors import Denied, ForeignCluster, NoCluster, NotAnswering
from mlscope.settings import Settings

REQUESTER = "requester"
"""The name of the key that may ask and hear, and nothing else."""

_CLUSTER = "cluster.json"
_NOT_RUNNING = ("stopping", "stopped", "failed")


def find_settings(
    environ: Mapping[str, str], *, url: str = "", seed_file: str = "", data: str = ""
) -> Settings:
    """Return the settings of a requester: arguments, else variables, else the local cluster.

    `environ` has the variables. `url` is the NATS server's, `seed_file` the path of the nkey seed,
    and `data` the folder of the local cluster; each is '' where it is not given.
    Raises InvalidSetting, and NoCluster where no local one runs.
    """
    settings = Settings.read(environ)
    if url or environ.get("MLSCOPE_NATS_URL"):
        return replace(
            settings,
            nats_url=url or settings.nats_url,
            nats_seed_file=Path(seed_file) if seed_file else settings.nats_seed_file,
        )
    folder = Path(data) if data else settings.data_folder
    try:
        with (folder / _CLUSTER).open(encoding="utf-8") as file:
            owner = os.fstat(file.fileno()).st_uid
            if owner not in (os.geteuid(), 0):
                raise ForeignCluster(str(folder), owner)
            cluster: dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        raise NoCluster(str(folder)) from None
    if cluster.get("phase") in _NOT_RUNNING or not cluster.get("nats_url"):
        raise NoCluster(str(folder))
    return replace(
        settings,
        nats_url=cluster["nats_url"],
        broker_uid=owner,
        nats_seed_file=Path(seed_file or settings.nats_seed_file or cluster["requester_seed_file"]),
        tls_authority_file=Path(cluster["authority_file"])
        if cluster.get("authority_file")
        else settings.tls_authority_file,
        data_folder=folder,
    )


@asynccontextmanager
async def open_bus(
    *, url: str = "", seed_file: str = "", data: str = "", timeout_s: float = 10.0
) -> AsyncIterator[Bus]:
    """Connect with the requester's key, within `timeout_s`.

    `url`, `seed_file` and `data` are as in `find_settings`. Raises NoCluster, NotAnswering,
    Denied (the server refuses the key), InvalidSetting.
    """
    from mlscope.bus.nats import connect

    settings = find_settings(os.environ, url=url, seed_file=seed_file, data=data)
    async with AsyncExitStack() as stack:
        try:
            connecting = connect(settings, REQUESTER, timeout_s=timeout_s)
            bus = await stack.enter_async_context(connecting)
        except NotPermitted as error:
            raise Denied("connect", str(error)) from error
        except BusError as error:
            raise NotAnswering("connect", str(error)) from error
        yield bus
