"""Makes streams, durables, buckets and stores through JetStream's API, as the provisioner."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from mlscope.bus.errors import ServerRefused, ServerTooOld, TooFewServers
from mlscope.bus.nats.connection import Connection
from mlscope.bus.nats.settings import NatsSettings
from mlscope.bus.nats.snapshots import restore_stream, snapshot_stream
from mlscope.bus.streams import OBJECTS, REPUBLISHED, Bucket, Durable, Store, Stream

_log = logging.getLogger(__name__)

LEAST_VERSION = (2, 12)
MOST_REPLICAS = 3
"""The servers that keep each stream where the cluster has as many, unless a setting says more."""

_NOT_FOUND = 10059
_NO_PEERS, _NO_CLUSTER = 10005, 10074
_STARTING_S, _STARTING_PAUSE_S = 10.0, 0.5
"""How long, and in what steps, servers of a cluster that are still starting are waited for."""
_COPYING_PAUSE_S = 0.2
_SECOND_NS = 1_000_000_000
_REPUBLISH = {"republish": {"src": ">", "dest": f"{REPUBLISHED}.>"}}


class Admin:
    """Makes the streams, durables, buckets and stores that services use; updates existing ones."""

    def __init__(
        self, settings: NatsSettings, name: str = "provisioner", *, replicas: int | None = None
    ) -> None:
        """Take the settings and the name of the key; `open` connects.

        Each stream is kept by `replicas` servers; None: by three where the cluster has three, else
        by one, and never by fewer than before.
        """
        self._connection = Connection(settings, name, patience_s=30.0)
        self._replicas = replicas
        self._starting_until_s = 0.0
        #: (before, now) for each stream that existed and is now kept by another number of servers
        self.moved: dict[str, tuple[int, int]] = {}

    async def open(self, timeout_s: float = 30.0) -> None:
        """Connect. Raises Unreachable, ServerTooOld."""
        await self._connection.open(timeout_s)
        version = self._connection.client.connected_server_version
        if (version.major, version.minor) < LEAST_VERSION:
            await self.close()
            raise ServerTooOld(
                f"{version.major}.{version.minor}.{version.patch}",
                ".".join(map(str, LEAST_VERSION)),
            )

    async def close(self) -> None:
        """Disconnect."""
        await self._connection.close()

    async def make_stream(self, stream: Stream) -> None:
        """Create or update a stream."""
        window_ns = int(stream.duplicate_window_s * _SECOND_NS)
        await self._make(
            {
                **(_REPUBLISH if stream.republishes else {}),
                "name": stream.name,
                "subjects": list(stream.subjects),
                "retention": "limits",
                "discard": "new" if stream.max_bytes > 0 and not stream.forgets else "old",
                "max_bytes": stream.max_bytes,
                # A compressed block that one of three servers writes while it is killed can't be
                # read again (nats-server 2.15): its copy then stands still for ever.
                "compression": "none",
                "duplicate_window": window_ns,
            }
        )

    async def make_bucket(self, bucket: Bucket) -> None:
        """Create or update a key-value bucket.

        Expired keys leave no marker: for those the server insists on roll-up headers, by which a
        writer of one key drops all of them.
        """
        ttl_ns = int(bucket.ttl_s * _SECOND_NS)
        config: dict[str, Any] = {
            "name": f"KV_{bucket.name}",
            "subjects": [f"$KV.{bucket.name}.>"],
            "max_msgs_per_subject": 1,
            "discard": "new",
            "deny_delete": True,
            "max_age": ttl_ns,
            "duplicate_window": min(ttl_ns or 120 * _SECOND_NS, 120 * _SECOND_NS),
            **_REPUBLISH,
        }
        if ttl_ns:
            config["allow_msg_ttl"] = True
        await self._make(config)

    async def make_store(self, store: Store) -> None:
        """Create or update an object store; nothing can be purged from `payloads`."""
        is_kept = store.name == OBJECTS
        await self._make(
            {
                "name": f"OBJ_{store.name}",
                "subjects": [f"$O.{store.name}.C.>", f"$O.{store.name}.M.>"],
                "discard": "new",
                "max_bytes": store.max_bytes,
                "max_age": int(store.ttl_s * _SECOND_NS),
                "deny_delete": is_kept,
                "deny_purge": is_kept,
            }
        )

    async def make_durable(self, durable: Durable) -> None:
        """Create or update a shared consumer. Tries are counted by the bus, not by the server."""
        config = {
            "durable_name": durable.name,
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "ack_wait": int(durable.ack_wait_s * _SECOND_NS),
            "max_deliver": -1,
            "max_ack_pending": durable.max_ack_pending,
            "filter_subjects": list(durable.filters),
            "replay_policy": "instant",
        }
        request = {"stream_name": durable.stream, "config": config, "action": ""}
        api = f"$JS.API.CONSUMER.DURABLE.CREATE.{durable.stream}.{durable.name}"
        await self._call(api, request)

    async def stream_names(self) -> list[str]:
        """Return the names of all streams, including those of buckets and object stores."""
        names: list[str] = []
        total = 1
        while len(names) < total:
            answer = await self._call("$JS.API.STREAM.NAMES", {"offset": len(names)})
            page = answer.get("streams") or []
            names += page
            total = int(answer["total"]) if page else 0
        return names

    async def snapshot_stream(self, name: str, take: Callable[[bytes], object]) -> dict[str, Any]:
        """Call `take` with the chunks of a snapshot of the stream `name`; return what restores it.

        Raises ServerRefused, Unreachable.
        """
        return await snapshot_stream(self._connection, name, take)

    async def restore_stream(
        self, name: str, described: Mapping[str, Any], chunks: Iterable[bytes]
    ) -> None:
        """Make the stream `name` from a snapshot's `chunks`, as `described` by its making.

        It gets the replicas that this cluster allows, not those of the cluster it comes from.
        Raises ServerRefused, TooFewServers, Unreachable.
        """
        # A server on its own refuses more replicas only after it has read the whole stream.
        config = {**described["config"], "num_replicas": 1}
        await restore_stream(self._connection, name, {**described, "config": config}, chunks)

        async def update(count: int) -> None:
            await self._call(f"$JS.API.STREAM.UPDATE.{name}", {**config, "num_replicas": count})

        await self._replicate(name, 1, update)

    async def delete_stream(self, name: str) -> None:
        """Delete a stream with its messages and durables."""
        await self._call(f"$JS.API.STREAM.DELETE.{name}", {})

    async def _make(self, config: Mapping[str, Any]) -> None:
        # Roll-up headers would let a writer of one subject purge the whole stream.
        whole_config = {
            "storage": "file",
            "allow_direct": True,
            "allow_rollup_hdrs": False,
            **config,
        }
        name = str(whole_config["name"])
        before = await self._replicas_of(name)
        # Update where it exists: a stream created again counts twice against the server's storage
        # limit until the server finds that it exists.
        api = f"$JS.API.STREAM.{'UPDATE' if before else 'CREATE'}.{name}"

        async def make(count: int) -> None:
            await self._call(api, {**whole_config, "num_replicas": count})

        count = await self._replicate(name, before, make)
        if before and before != count:
            self.moved[name] = (before, count)

    async def _replicate(
        self, name: str, before: int, make: Callable[[int], Awaitable[None]]
    ) -> int:
        """Call `make` with the replicas that the stream `name` gets, and return them.

        It has `before` now, 0 if it does not exist. Raises TooFewServers.
        """
        count = self._replicas or max(before, MOST_REPLICAS)
        least = self._replicas or before or 1
        while True:
            try:
                await make(count)
            except ServerRefused as error:
                if error.error not in (_NO_PEERS, _NO_CLUSTER):
                    raise
                is_short = error.error == _NO_PEERS
                if is_short and count > least and await self._may_more_servers_come():
                    continue
                if count == least:
                    raise TooFewServers(name, count) from error
                if is_short and not before:
                    _log.warning("%s gets 1 replica: fewer than %d servers answer", name, count)
                count = least
            else:
                return count

    async def _may_more_servers_come(self) -> bool:
        """Pause for servers that may still be starting; False when they had time, or none is."""
        now_s = asyncio.get_running_loop().time()
        self._starting_until_s = self._starting_until_s or now_s + _STARTING_S
        if len(self._connection.client.servers) < 2 or now_s >= self._starting_until_s:
            return False
        await asyncio.sleep(_STARTING_PAUSE_S)
        return True

    async def await_copies(self, names: Iterable[str], within_s: float) -> list[str]:
        """Return once every server that keeps one of the streams `names` has all of its messages.

        Until then the death of the server that kept it alone takes the stream away. Returned are
        those that are not copied after `within_s`.
        """
        waiting = list(names)
        deadline_s = asyncio.get_running_loop().time() + within_s
        while waiting and asyncio.get_running_loop().time() < deadline_s:
            info = await self._call(f"$JS.API.STREAM.INFO.{waiting[0]}", {})
            cluster = info.get("cluster") or {}
            replicas = cluster.get("replicas") or []
            is_whole = len(replicas) == info["config"]["num_replicas"] - 1
            is_current = all(replica["current"] for replica in replicas)
            if is_whole and cluster.get("leader") and is_current:
                waiting.pop(0)
            else:
                await asyncio.sleep(_COPYING_PAUSE_S)
        return waiting

    async def _replicas_of(self, stream: str) -> int:
        """Return the number of servers that keep a stream; 0 if it does not exist."""
        try:
            info = await self._call(f"$JS.API.STREAM.INFO.{stream}", {})
        except ServerRefused as error:
            if error.error != _NOT_FOUND:
                raise
            return 0
        return int(info["config"]["num_replicas"])

    async def _call(self, api: str, request: Mapping[str, Any]) -> Any:
        return await self._connection.call(api, request)
