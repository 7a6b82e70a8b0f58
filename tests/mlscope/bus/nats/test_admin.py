"""Provisioning: what is made, what is changed, what nobody may do to it."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import nats
import pytest

from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.errors import ServerRefused, ServerTooOld
from mlscope.bus.nats.admin import Admin
from mlscope.bus.streams import ARTIFACTS, BATCHES, OBJECTS, STREAMS, Bucket, managed
from mlscope.provision import provision
from mlscope.settings import Settings
from tests.contracts.worlds import NatsWorld, OpenSettings


def settings_of(server: NatsServer, name: str) -> Settings:
    """Return the settings of the connection `name`."""
    return Settings(nats_url=server.url, nats_seed_file=server.seed_files[name])


async def test_streams_are_listed_and_deleted(world: NatsWorld) -> None:
    admin = Admin(OpenSettings(world.server.url))
    await admin.open()
    names = await admin.stream_names()
    assert {stream.name for stream in STREAMS} < set(names)
    await admin.delete_stream("TRACES")
    assert set(names) - set(await admin.stream_names()) == {"TRACES"}
    with pytest.raises(ServerRefused, match="not found"):
        await admin.delete_stream("TRACES")
    await admin.close()


async def test_what_cannot_be_changed_is_refused(world: NatsWorld) -> None:
    admin = Admin(OpenSettings(world.server.url))
    await admin.open()
    taken = replace(STREAMS[0], name="OTHER")
    with pytest.raises(ServerRefused, match="overlap"):
        await admin.make_stream(taken)
    await admin.close()


@pytest.mark.parametrize(("refusals", "replicas"), [(2, 3), (99, 1)])
async def test_a_server_that_still_starts_is_waited_for(
    world: NatsWorld,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    refusals: int,
    replicas: int,
) -> None:
    """Two of three servers refuse three replicas, until the third one answers."""
    monkeypatch.setattr("mlscope.bus.nats.admin._STARTING_PAUSE_S", 0.01)
    monkeypatch.setattr("mlscope.bus.nats.admin._STARTING_S", 1.0 if refusals == 2 else 0.1)
    admin = Admin(OpenSettings(f"{world.server.url},{world.server.url}/2"))
    await admin.open()
    asked: list[int] = []

    async def call(api: str, request: Mapping[str, Any]) -> Any:
        """Be the API of a cluster without the stream."""
        if "STREAM.INFO" in api:
            raise ServerRefused(api, 404, 10059, "none")
        asked.append(request["num_replicas"])
        if request["num_replicas"] > 1 and len(asked) <= refusals:
            raise ServerRefused(api, 400, 10005, "no suitable peers")

    monkeypatch.setattr(admin._connection, "call", call)
    await admin.make_stream(STREAMS[0])
    assert asked[-1] == replicas
    assert len(asked) > 2
    assert (f"{STREAMS[0].name} gets 1 replica" in caplog.text) == (replicas == 1)
    await admin.close()


async def test_nobody_purges_what_the_log_refers_to(nats_server: NatsServer) -> None:
    await provision(settings_of(nats_server, "provisioner"))
    client = await nats.connect(
        nats_server.url,
        nkeys_seed_str=nats_server.seeds["provisioner"],
        inbox_prefix=b"_INBOX_provisioner",
    )
    assert (await client.jetstream().stream_info(f"OBJ_{OBJECTS}")).config.deny_purge is True
    await client.close()


async def test_provisioning_again_changes_what_is_set(nats_server: NatsServer) -> None:
    settings = settings_of(nats_server, "provisioner")
    await provision(settings)
    await provision(
        replace(
            settings,
            traces_max_bytes=1 << 20,
            lease_ttl_s=7.0,
            payloads_max_bytes=2 << 20,
            artifacts_max_bytes=3 << 20,
        )
    )
    client = await nats.connect(
        nats_server.url,
        nkeys_seed_str=nats_server.seeds["provisioner"],
        inbox_prefix=b"_INBOX_provisioner",
    )
    manager = client.jetstream()
    traces = (await manager.stream_info("TRACES")).config
    assert (traces.max_bytes, traces.discard, traces.allow_direct) == (1 << 20, "new", True)
    assert (traces.compression, traces.max_age) == ("none", 0)
    assert (await manager.stream_info("KV_leases")).config.max_age == 7.0
    assert (await manager.stream_info("KV_catalog")).config.max_age == 0
    assert (await manager.stream_info("EVALUATIONS")).config.max_bytes == -1
    for name in (OBJECTS, BATCHES):
        store = (await manager.stream_info(f"OBJ_{name}")).config
        assert (store.max_bytes, store.discard) == (2 << 20, "new")
    store = (await manager.stream_info(f"OBJ_{ARTIFACTS}")).config
    assert (store.max_bytes, store.deny_purge) == (3 << 20, False)
    await client.close()
    collector = await nats.connect(
        nats_server.url,
        nkeys_seed_str=nats_server.seeds["collector"],
        inbox_prefix=b"_INBOX_collector",
    )
    answer = await collector.request(managed("CONSUMER.INFO.TRACES.spans"))
    spans = json.loads(answer.data)["config"]
    assert (spans["ack_wait"], spans["max_deliver"]) == (30_000_000_000, -1)
    await collector.close()


async def test_provisioning_again_reserves_nothing_twice(nats_server: NatsServer) -> None:
    # The server has room for 32 GiB, of which 27 are reserved.
    settings = replace(settings_of(nats_server, "provisioner"), artifacts_max_bytes=12 << 30)
    await provision(settings)
    await provision(settings)
    client = await nats.connect(
        nats_server.url,
        nkeys_seed_str=nats_server.seeds["provisioner"],
        inbox_prefix=b"_INBOX_provisioner",
    )
    store = (await client.jetstream().stream_info(f"OBJ_{ARTIFACTS}")).config
    assert store.max_bytes == 12 << 30
    await client.close()


async def test_an_old_server_is_refused() -> None:
    left = asyncio.Event()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"version":"2.11.9","max_payload":1048576,"headers":true}\r\n')
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()
        await writer.wait_closed()
        left.set()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(ServerTooOld, match=r"2\.11\.9"):
        await provision(Settings(nats_url=f"nats://127.0.0.1:{port}"))
    await left.wait()
    server.close()


async def test_leases_that_an_older_version_made_take_roll_ups_no_more(world: NatsWorld) -> None:
    """Release 0.1 had markers of expired leases, with which a server allows roll-ups."""
    admin = Admin(OpenSettings(world.server.url))
    await admin.open()
    await admin.delete_stream("KV_leases")
    client = await nats.connect(world.server.url)
    config = {
        "name": "KV_leases",
        "subjects": ["$KV.leases.>"],
        "storage": "file",
        "max_msgs_per_subject": 1,
        "discard": "new",
        "deny_delete": True,
        "max_age": 15_000_000_000,
        "duplicate_window": 15_000_000_000,
        "allow_msg_ttl": True,
        "allow_direct": True,
        "subject_delete_marker_ttl": 60_000_000_000,
    }
    request = json.dumps(config).encode()
    made = json.loads((await client.request("$JS.API.STREAM.CREATE.KV_leases", request)).data)
    assert made["config"]["allow_rollup_hdrs"] is True
    await admin.make_bucket(Bucket("leases", ttl_s=15.0))
    await admin.close()
    async with world.connect() as bus:
        await bus.put("leases", "agent-1", b"1")
        await client.publish("$KV.leases.agent-2", b"", headers={"Nats-Rollup": "all"})
        await client.flush()
        assert await bus.get("leases", "agent-1") is not None
    await client.close()
