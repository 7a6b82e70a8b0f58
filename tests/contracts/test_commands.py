"""Commands and live messages: asked, answered, refused within bounds."""

import asyncio
import itertools
import json
from contextlib import aclosing

import msgpack
import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.command_letters import LETTERS_AN_HOUR
from mlscope.bus.errors import NoAnswer
from mlscope.bus.records import ReceivedCommand, ServiceInfo
from schemas.dead import LetterBuried
from schemas.encoding.codec import decode_body, encode_body, is_json
from schemas.request import Refused
from schemas.subjects import facts_of
from tests.contracts.facts import E, a_fact
from tests.contracts.worlds import World

SUBJECT = "mlscope.v1.request.catalog"


async def _echo(asked: ReceivedCommand) -> bytes:
    return asked.subject.encode() + b" " + asked.body


async def test_a_command_is_answered(bus: Bus) -> None:
    await bus.answer("mlscope.v1.request.*", _echo, queue="registry")
    assert await bus.ask(SUBJECT, b"{}") == SUBJECT.encode() + b" {}"


async def test_a_command_carries_the_context_of_its_cause(bus: Bus) -> None:
    async def context(asked: ReceivedCommand) -> bytes:
        return asked.traceparent.encode()

    await bus.answer(SUBJECT, context, queue="registry")
    assert await bus.ask(SUBJECT, b"", traceparent="00-1-2-01") == b"00-1-2-01"
    assert await bus.ask(SUBJECT, b"") == b""


async def test_nobody_there_is_told_at_once(bus: Bus) -> None:
    with pytest.raises(NoAnswer) as raised:
        await bus.ask(SUBJECT, b"", timeout_s=60.0)
    assert raised.value.subject == SUBJECT


async def test_no_answer_in_time(bus: Bus) -> None:
    async def silent(_: ReceivedCommand) -> bytes | None:
        return None

    await bus.answer(SUBJECT, silent, queue="registry")
    with pytest.raises(NoAnswer):
        await bus.ask(SUBJECT, b"", timeout_s=0.2)


async def test_one_of_a_queue_group_answers(world: World) -> None:
    asked: list[str] = []
    async with world.connect("one") as one, world.connect("two") as two:
        for bus in (one, two):

            async def told(_: ReceivedCommand, name: str = bus.name) -> bytes:
                asked.append(name)
                return name.encode()

            await bus.answer(SUBJECT, told, queue="registry")
        for _ in range(50):
            await one.ask(SUBJECT, b"")
        assert len(asked) == 50
        assert set(asked) == {"one", "two"}


@pytest.mark.parametrize("body", [b"{}", b"\x80"])
async def test_a_failing_answerer_refuses_in_the_askers_encoding(bus: Bus, body: bytes) -> None:
    async def failing(_: ReceivedCommand) -> bytes:
        raise ZeroDivisionError

    await bus.answer(SUBJECT, failing, queue="registry")
    answer = await bus.ask(SUBJECT, body)
    assert is_json(answer) == is_json(body)
    assert decode_body(Refused, answer).error == "unavailable"


async def test_beyond_the_bound_requests_are_refused_as_busy(world: World) -> None:
    release = asyncio.Event()
    at_work: set[int] = set()

    async def slow(asked: ReceivedCommand) -> bytes:
        at_work.add(len(at_work))
        await release.wait()
        return encode_body(a_fact("done"), json_text=is_json(asked.body))

    async with world.connect("one", max_pending_requests=100) as one, world.connect("two") as two:
        await one.answer(SUBJECT, slow, queue="registry")
        asking = [asyncio.create_task(two.ask(SUBJECT, b"{}", timeout_s=30)) for _ in range(2000)]
        refused = itertools.islice(asyncio.as_completed(asking), 1900)
        for answer in refused:
            await answer
        assert len(at_work) <= 100
        release.set()
        told = [json.loads(answer) for answer in await asyncio.gather(*asking)]
    assert sum(answer.get("error") == "busy" for answer in told) == 1900
    assert sum(answer.get("reason") == "done" for answer in told) == 100


async def test_of_a_flood_nobody_waits_for_the_first_refusals_are_buried(bus: Bus) -> None:
    release = asyncio.Event()

    async def held(_: ReceivedCommand) -> bytes:
        await release.wait()
        return b"{}"

    await bus.answer(SUBJECT, held, queue="registry", limit_pending=4)
    for n in range(40):
        await bus.publish_live(SUBJECT, json.dumps({"model": n}).encode())
    buried = set[bytes]()
    async with asyncio.timeout(60), aclosing(bus.follow(facts_of(LetterBuried))) as dead:
        while len(buried) < LETTERS_AN_HOUR:
            recorded = await anext(dead)
            if recorded is not None and isinstance(recorded.fact, LetterBuried):
                assert recorded.fact.reason.startswith("busy: ")
                buried.add(recorded.fact.body)
    release.set()


async def test_a_subject_may_have_bounds_of_its_own(world: World) -> None:
    release = asyncio.Event()
    at_work: list[bytes] = []

    async def slow(asked: ReceivedCommand) -> bytes:
        at_work.append(asked.body)
        if len(at_work) == 150:
            release.set()
        await release.wait()
        return b"{}"

    async with world.connect("one", max_pending_requests=10) as one, world.connect("two") as two:
        await one.answer(SUBJECT, slow, queue=None, limit_pending=150, limit_running=150)
        asking = [two.ask(SUBJECT, b"{}", timeout_s=30) for _ in range(150)]
        assert await asyncio.gather(*asking) == [b"{}"] * 150


async def test_commands_are_answered_while_another_is_at_work(bus: Bus) -> None:
    release = asyncio.Event()

    async def once_slow(asked: ReceivedCommand) -> bytes:
        if asked.body == b"slow":
            await release.wait()
        return asked.body

    await bus.answer(SUBJECT, once_slow, queue="registry")
    slow = asyncio.create_task(bus.ask(SUBJECT, b"slow"))
    assert await bus.ask(SUBJECT, b"fast") == b"fast"
    release.set()
    assert await slow == b"slow"


async def test_a_refusal_nobody_waits_for_goes_to_the_dead_letters(bus: Bus) -> None:
    async def refusing(_: ReceivedCommand) -> bytes:
        return encode_body(Refused(error="invalid", message="no such model", field="model"))

    await bus.answer(SUBJECT, refusing, queue="registry")
    await bus.publish_live(SUBJECT, b'{"model": "x"}')
    async with aclosing(bus.follow(facts_of(LetterBuried))) as dead:
        buried = (await anext(dead)) or (await anext(dead))
    letter = buried.fact if buried else None
    assert isinstance(letter, LetterBuried)
    assert letter.reason == "invalid: no such model"
    assert (letter.subject, letter.body, letter.stream) == (SUBJECT, b'{"model": "x"}', "")


async def test_a_command_without_reply_is_done_all_the_same(bus: Bus) -> None:
    heard: asyncio.Queue[ReceivedCommand] = asyncio.Queue()

    async def doing(asked: ReceivedCommand) -> bytes:
        heard.put_nowait(asked)
        return b'{"accepted": true}'

    await bus.answer(SUBJECT, doing, queue="registry")
    await bus.publish_live(SUBJECT, b"{}")
    asked = await asyncio.wait_for(heard.get(), 5)
    assert asked == ReceivedCommand(SUBJECT, b"{}", wants_answer=False)
    assert await bus.read(facts_of(LetterBuried)) == []


async def test_facts_are_heard_live(world: World) -> None:
    async with world.connect("one") as one, world.connect("two") as two:
        hearing = await one.subscribe(f"mlscope.v1.*.{E}.>").ready()
        await two.publish(a_fact("why"), id="a")
        await two.publish(a_fact(evaluation="another"), id="b")
        await two.publish_live(f"mlscope.v1.live.{E}.progress", b"half")
        subject, body = await asyncio.wait_for(anext(hearing), 5)
        assert subject == f"mlscope.v1.evaluation.{E}.cancelled"
        assert msgpack.unpackb(body)["data"]["reason"] == "why"
        live = await asyncio.wait_for(anext(hearing), 5)
        assert live == (f"mlscope.v1.live.{E}.progress", b"half")
        await hearing.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(hearing)


async def test_a_service_is_found_by_discovery(world: World) -> None:
    async with world.connect("scheduler") as bus, world.connect("requester") as asker:
        facts = ServiceInfo("scheduler", "0.1.0", "plans", {"evaluate": SUBJECT})
        await bus.announce(facts, lambda: {"sequence": 7})
        await bus.answer(SUBJECT, _echo, queue="scheduler")
        await asker.ask(SUBJECT, b"{}")
        ping = json.loads(await asker.ask("$SRV.PING", b""))
        assert ping["type"] == "io.nats.micro.v1.ping_response"
        assert (ping["name"], ping["version"]) == ("scheduler", "0.1.0")
        told = json.loads(await asker.ask("$SRV.INFO.scheduler", b""))
        assert (told["description"], told["endpoints"][0]["subject"]) == ("plans", SUBJECT)
        stats = json.loads(await asker.ask(f"$SRV.STATS.scheduler.{ping['id']}", b""))
        (endpoint,) = stats["endpoints"]
        assert (endpoint["data"], endpoint["num_requests"]) == ({"sequence": 7}, 1)
        assert endpoint["processing_time"] > 0


async def test_everybody_who_is_asked_answers_once(world: World) -> None:
    async with world.connect("scheduler") as one, world.connect("gateway") as asker:
        for bus in (one, asker):
            await bus.announce(ServiceInfo(bus.name, "0.1.0", "", {}), dict)
        answers = [json.loads(text) for text in await asker.ask_all("$SRV.STATS", within_s=2.0)]
        assert sorted(answer["name"] for answer in answers) == ["gateway", "scheduler"]


async def test_where_nobody_is_asked_nobody_answers(bus: Bus) -> None:
    assert await bus.ask_all("$SRV.STATS", within_s=2.0) == []


async def test_refusals_are_counted_with_their_code(bus: Bus) -> None:
    async def refusing(asked: ReceivedCommand) -> bytes:
        refused = Refused(error="unknown", message="no such evaluation")
        return encode_body(refused, json_text=is_json(asked.body))

    facts = ServiceInfo("registry", "0.1.0", "keeps", {"catalog": SUBJECT})
    await bus.answer(SUBJECT, refusing, queue="registry")
    await bus.announce(facts, dict)
    for body in (b"{}", msgpack.packb({})):
        await bus.ask(SUBJECT, body)
    (endpoint,) = json.loads(await bus.ask("$SRV.STATS", b""))["endpoints"]
    assert (endpoint["num_requests"], endpoint["num_errors"]) == (2, 2)
    assert endpoint["last_error"] == "unknown:no such evaluation"


async def test_failures_are_counted(bus: Bus) -> None:
    async def failing(_: ReceivedCommand) -> bytes:
        raise ValueError("no luck")

    facts = ServiceInfo("registry", "0.1.0", "keeps", {"catalog": SUBJECT})
    await bus.answer(SUBJECT, failing, queue="registry")
    await bus.announce(facts, dict)
    await bus.ask(SUBJECT, b"{}")
    (endpoint,) = json.loads(await bus.ask("$SRV.STATS", b""))["endpoints"]
    assert (endpoint["num_errors"], endpoint["last_error"]) == (1, "ValueError: no luck")
