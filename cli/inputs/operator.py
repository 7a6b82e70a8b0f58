"""Decisions of a local cluster's operator: written to the broker's users, recorded as facts."""

import argparse
import json
import os
import secrets
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

from cli.cluster.keys.members import Members
from cli.cluster.state import ClusterState
from cli.failures import Misused
from mlscope.bus.access.permissions import OPERATOR
from mlscope.bus.errors import BusError, NotPermitted
from mlscope.client.connection import find_settings
from mlscope.client.errors import ClientError, Denied, NotAnswering
from mlscope.settings import InvalidSetting
from schemas.agent import AgentRevoked
from schemas.message import Fact

_WITHIN_S = 30.0
_NOTIFY_AGAIN_S = 5.0
_LOADS = 2


class NotRecorded(ClientError):
    """A deed is done, and the log does not have it: the same command records it."""

    def __init__(self, deed: str, reason: str) -> None:
        """Name the deed, in a whole sentence without its end, and why it is not recorded."""
        self.deed, self.reason = deed, reason
        super().__init__(
            f"{deed}, but the audit does not list it: {reason}; run the same command again, with "
            "the operator's key, to have it recorded"
        )


async def record_decision(arguments: argparse.Namespace, fact: Fact) -> None:
    """Record a `fact` with the operator's key; the `arguments` name the cluster.

    Raises Denied (another key than the operator's), NotAnswering, NoCluster.
    """
    from mlscope.bus.nats import connect

    settings = find_settings(os.environ, url=arguments.url, data=arguments.data)
    seed_file = arguments.seed_file or settings.data_folder / "keys" / f"{OPERATOR}.nk"
    try:
        async with connect(replace(settings, nats_seed_file=Path(seed_file)), OPERATOR) as bus:
            await bus.publish(fact, id=secrets.token_hex(16))
            if isinstance(fact, AgentRevoked):
                await bus.delete("leases", f"agent-{fact.agent}")
    except NotPermitted as error:
        needed = "it takes the operator's key, no person's: keys/operator.nk of the cluster's data"
        fix = "run this on the cluster's machine, or name that file with --seed-file"
        reason = f"{seed_file} may not record this; {needed}; {fix}"
        raise Denied(f"{fact.entity}.{fact.happened}", reason) from error
    except BusError as error:
        raise NotAnswering("connect", str(error)) from error


async def record_deed(arguments: argparse.Namespace, fact: Fact, deed: str) -> None:
    """Record a `fact` as `record_decision` does by its `arguments`.

    It is of a `deed` that is done, as a whole sentence. What takes a right away does not wait for a
    record. Raises NotRecorded.
    """
    try:
        await record_decision(arguments, fact)
    except (ClientError, InvalidSetting, OSError) as error:
        raise NotRecorded(deed, str(error)) from error


def tell_broker(members: Members, state: ClusterState) -> None:
    """Return once the broker of `state` has read who may connect, twice, as a new one needs.

    `members` are those of its folder. Raises Misused after a time.
    """
    loads = {_load_time(state)}
    start_s = time.monotonic()
    notify_s = start_s
    while (now_s := time.monotonic()) < start_s + _WITHIN_S:
        if now_s >= notify_s:
            # Again after a while: on a busy machine two loads may pass between two looks.
            members.notify()
            notify_s = now_s + _NOTIFY_AGAIN_S
        loads.add(_load_time(state))
        if len(loads) > _LOADS:
            return
        time.sleep(0.05)
    raise Misused("the broker has not read its new configuration: see logs/nats.log")


def _load_time(state: ClusterState) -> str:
    """Return when the broker last read its configuration."""
    with urllib.request.urlopen(f"{state.monitor_url}/varz", timeout=5) as answer:  # noqa: S310
        return str(json.load(answer)["config_load_time"])
