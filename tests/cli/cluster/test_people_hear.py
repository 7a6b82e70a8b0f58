"""Facts of private evaluations have the subjects of all: only owners hear any."""

from pathlib import Path

from nats.aio.msg import Msg

from mlscope.bus.nats import connect
from mlscope.provision import provision
from mlscope.settings import Settings
from schemas.evaluation import EvaluationCancelled
from tests.cli.cluster.keyholders import served
from tests.cli.cluster.reply_tricks import opened, settle

KEYS = ("person-vp", "person-rp", "person-op", "requester")


async def test_facts_reach_nobody_but_owners(data_folder: Path) -> None:
    heard: set[str] = set()
    with served(data_folder) as server:

        def settings_of(key: str) -> Settings:
            return Settings(nats_url=server.url, nats_seed_file=server.seed_files[key])

        await provision(settings_of("provisioner"))
        clients = {key: await opened(server, key) for key in KEYS}
        for key, client in clients.items():

            async def note(_: Msg, key: str = key) -> None:
                heard.add(key)

            for subject in ("mlscope.v1.evaluation.>", "mlscope.v1.watch.*.*"):
                await client.subscribe(subject, cb=note)
            await settle(client)
        async with connect(settings_of("scheduler"), "scheduler") as scheduler:
            await scheduler.publish(EvaluationCancelled(evaluation="e1"), id="1")
        for _ in range(50):  # the log sends on what it stored
            for client in clients.values():
                await settle(client)
        for client in clients.values():
            await client.close()
    assert heard == {"person-op", "requester"}
