"""`mlscope dead`: what services gave up on is listed, and shown."""

from pathlib import Path

from cli import exits
from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.nats import connect
from mlscope.provision import provision
from mlscope.settings import Settings
from schemas.dead import LetterBuried
from tests.cli.conftest import CommandLine
from tests.contracts.facts import a_fact
from tests.mlscope.bus.nats.test_letters import Fails, handling, letters_of
from tests.stand_ins import StandIns

LETTER = LetterBuried(
    service="collector",
    reason="2 texts for 1 names",
    subject="mlscope.v1.trace.e1.r0.captured.a1",
    stream="TRACES",
    sequence=17,
    deliveries=3,
    body=b"\x93raw",
)


async def test_letters_are_listed_and_shown(nats_server: NatsServer, standing: StandIns) -> None:
    settings = Settings(
        nats_url=nats_server.url, nats_seed_file=nats_server.seed_files["collector"]
    )
    async with connect(settings, "collector") as bus:
        number = await bus.publish(LETTER, id="letter-17")
    line = CommandLine(
        MLSCOPE_NATS_URL=nats_server.url,
        MLSCOPE_NATS_SEED_FILE=str(nats_server.seed_files["operator"]),
    )
    listed = await line("dead", "-o", "json")
    letter = next(one for one in listed.json() if one["number"] == number)
    assert letter.pop("at")
    assert letter == {
        "number": number,
        "service": "collector",
        "subject": LETTER.subject,
        "stream": "TRACES",
        "sequence": 17,
        "deliveries": 3,
        "retries": 0,
        "reason": LETTER.reason,
    }
    shown = await line("dead", str(number))
    assert (shown.code, repr(LETTER.body) in shown.out) == (exits.OK, True)
    none = await line("dead", "999999")
    assert none.code == exits.USAGE
    assert "no dead letter 999999" in none.err
    for words in (("retry",), ("drop", "some"), (str(number), "all"), ("retry", "x")):
        assert (await line("dead", *words)).code == exits.USAGE
    away = await line("dead", "retry", str(number))
    assert (away.code, f"{number}: " in away.err) == (exits.FAILED, True)
    dropped = await line("dead", "drop", str(number))
    assert (dropped.code, dropped.out) == (exits.OK, f"{number}: dropped, {LETTER.subject}\n")
    again = await line("dead", "drop", str(number))
    assert again.code == exits.USAGE


async def test_letters_are_handled_again_by_their_service(data_folder: Path) -> None:
    fails = Fails()
    with NatsServer(data_folder) as server:

        def settings_of(key: str) -> Settings:
            return Settings(nats_url=server.url, nats_seed_file=server.seed_files[key])

        await provision(settings_of("provisioner"))
        seed_file = str(server.seed_files["operator"])
        line = CommandLine(MLSCOPE_NATS_URL=server.url, MLSCOPE_NATS_SEED_FILE=seed_file)
        async with (
            connect(settings_of("operator"), "operator") as operator,
            connect(settings_of("scheduler"), "scheduler") as bus,
            handling(bus, fails),
        ):
            for name in ("a", "b"):
                await bus.publish(a_fact(), id=name)
            (first, _), _ = await letters_of(operator, 2)
            in_vain = await line("dead", "retry", str(first.sequence))
            assert (in_vain.code, "no table for it" in in_vain.err) == (exits.FAILED, True)
            fails.works = True
            retried = await line("dead", "retry", "all")
            assert retried.code == exits.OK, retried.err
            assert retried.out.count(": handled by scheduler, ") == 2
            assert sorted(name for name, _ in fails.handled) == ["a", "b"]
            assert (await line("dead", "-o", "json")).json() == []
