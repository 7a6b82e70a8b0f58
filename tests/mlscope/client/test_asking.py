"""One command: its answer, its refusal, its silence; and tables of many answers."""

import pytest

from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.bus import Bus
from mlscope.client import AsyncClient, CommandRefused, EvaluationRefused, NotAnswering
from mlscope.client.asking import ask, ask_for, command_of, missing_right
from mlscope.client.connection import open_bus
from mlscope.client.errors import Denied, NoBroker, OtherVersion
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.analysis import Tables
from schemas.message import Command
from schemas.request import Accepted, Cancel, Evaluate, ShowCatalog
from schemas.status import Catalog
from tests.mlscope.client.answers import answering
from tests.stand_ins import StandIns
from tests.stories import E


class Forbidden(Command):
    """A command no requester may send."""

    verb = "agent.a1.start"


async def test_a_table_of_many_answers_is_whole(client: AsyncClient, standing: StandIns) -> None:
    standing.most_rows = 1
    table = (await client.tables(E, "latency"))["latency"]
    assert [row["run"] for row in table.rows()] == ["r0", "r1"]
    assert table.table.caveats == ()


async def test_rows_that_do_not_come_are_said(client: AsyncClient, standing: StandIns) -> None:
    standing.most_rows = 0
    table = (await client.tables(E))["latency"]
    assert (table.rows(), len(table.table.caveats)) == ([], 1)


async def test_nobody_there_is_said_so(bus: Bus) -> None:
    with pytest.raises(NotAnswering, match="mlscope status"):
        await AsyncClient(bus=bus).catalog()


@pytest.mark.parametrize(
    ("kind", "error"), [(Evaluate, EvaluationRefused), (Cancel, CommandRefused)]
)
def test_a_wrong_field_is_refused_before_it_is_sent(
    kind: type[Command], error: type[CommandRefused]
) -> None:
    with pytest.raises(error) as raised:
        command_of(kind, {"model": "m", "evaluation": "e1", "reason": 7, "warmup": "x"})
    assert type(raised.value) is error
    assert raised.value.field in ("reason", "warmup")


@pytest.mark.usefixtures("standing")
async def test_an_answer_comes_as_a_map_or_as_a_message(bus: Bus) -> None:
    told = await ask(bus, ShowCatalog(kind="model"))
    catalog = await ask_for(bus, ShowCatalog(kind="model"), Catalog)
    assert told["models"][0]["name"] == catalog.models[0].name == "tiny"


async def test_what_the_key_may_not_ask_is_denied(nats_server: NatsServer) -> None:
    key = str(nats_server.seed_files["requester"])
    async with open_bus(url=nats_server.url, seed_file=key) as bus:
        with pytest.raises(Denied) as raised:
            await ask(bus, Forbidden())
    assert raised.value.verb == "agent.a1.start"
    assert str(raised.value) == "agent.a1.start: this key may not do this"


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        ("evaluate", "a viewer's key may not do this, a requester's or owner's may; `mlscope peo"),
        ("price", "a viewer's or requester's key may not do this, an owner's may; `mlscope people"),
        ("catalog", "this key may not do this; the key of any person may"),
    ],
)
def test_a_missing_right_has_the_roles_that_include_it(verb: str, said: str) -> None:
    assert missing_right(verb).startswith(said)


async def test_an_answer_of_another_shape_is_one_of_another_version(
    server: MemoryServer, bus: Bus
) -> None:
    async with connect(server, "registry") as registry:
        await answering(registry, ShowCatalog, lambda _: Accepted(evaluation=E))
        with pytest.raises(
            OtherVersion, match="install the same version on all machines"
        ) as raised:
            await ask_for(bus, ShowCatalog(), Tables)
    assert raised.value.verb == "catalog"


async def test_a_broker_that_is_not_there_is_told_from_a_service_that_is_not(
    server: MemoryServer,
) -> None:
    async with connect(server, "requester", patience_s=0.0) as bus:
        server.stop()
        with pytest.raises(NoBroker, match="the message broker does not answer"):
            await ask(bus, ShowCatalog())
        server.start()
        with pytest.raises(NotAnswering, match="no service answers") as raised:
            await ask(bus, ShowCatalog())
    assert not isinstance(raised.value, NoBroker)
