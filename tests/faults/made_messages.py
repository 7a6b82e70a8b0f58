"""Messages that are nearly right: made from the schemas, then spoilt in some places. Pure.

A message of random bytes is refused where it is decoded; one that is right but for a field goes
deeper. Each is made of a seed and a number alone, so that one that hurt is made again.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgpack

from schemas.encoding.message_index import COMMANDS, FACTS
from schemas.message import Command, Fact

_TOKENS = ("e1", "e2", "r0", "r1", "a1", "first", "ghost", "scheduler", "x" * 64, "agent-first")
_TEXTS = (
    "", "x", "..", "../../etc/passwd", "*", ">", "a b", "\0", "\ud7ff", "x" * 300, "x" * 5000,
    "file:///etc/passwd", "http://127.0.0.1:1/x", "identity", "1.0.0", "-1", "inf", "{}", "\r\nPUB",
)  # fmt: skip
_NUMBERS = (
    0, 1, -1, 2, 7, 2**31, 2**53, 2**63 - 1, -(2**63), 2**64 - 1, 0.5, -0.0, 1e308, float("inf"),
    float("nan"),
)  # fmt: skip
_HEADERS = (
    ("Nats-Msg-Id", "x"), ("Nats-Rollup", "sub"), ("Nats-Expected-Last-Sequence", "1"),
    ("Nats-Expected-Stream", "DEAD"), ("traceparent", "00-zz"), ("X-" + "y" * 500, "z" * 2000),
    ("Nats-TTL", "1s"),
)  # fmt: skip
_REPLIES = (
    "", "", "", "x", "mlscope.v1.evaluation.e1.measured", "$JS.API.STREAM.PURGE.EVALUATIONS",
    "$KV.leases.agent-first", "_INBOX_scheduler.x", "mlscope.v1.request.evaluate", "x." * 100 + "x",
)  # fmt: skip
_CHANGES = ("CREATE", "UPDATE", "DELETE", "PURGE", "MSG.DELETE", "SNAPSHOT", "RESTORE")
# What a key does with these is its right, and no fault: it changes streams, removes what they hold,
# takes what its own service waits for, or tells the running agent that it is revoked.
_LEFT_OUT = (
    "$JS.API.CONSUMER.MSG.NEXT.",
    "$JS.ACK.",
    *(f"$JS.API.STREAM.{verb}." for verb in _CHANGES),
    "$JS.API.CONSUMER.DURABLE",
    "mlscope.v1.agent.first.revoked",
    "mlscope.v1.agent.first.drained",
)


@dataclass(frozen=True, slots=True)
class MadeMessage:
    """One message to publish."""

    subject: str
    body: bytes
    headers: dict[str, str] | None
    reply: str


def made_message(key: str, publish: Sequence[str], seed: int, number: int) -> MadeMessage | None:
    """Return message `number` of a `seed` for a `key` that may `publish` on some subjects.

    None where nothing that it may publish is tried.
    """
    chance = random.Random(f"{seed}/{key}/{number}")  # repeatable
    rights = [right for right in publish if not right.startswith(_LEFT_OUT)]
    if not rights:
        return None
    subject = _literal(chance.choice(rights), chance)
    if subject.startswith(_LEFT_OUT):
        return None
    body = _body(subject, chance)
    headers = dict([chance.choice(_HEADERS)]) if chance.random() < 0.2 else None
    return MadeMessage(subject, body, headers, chance.choice(_REPLIES))


def _literal(right: str, chance: random.Random) -> str:
    """Return a subject that a right allows."""
    tokens = [chance.choice(_TOKENS) if token == "*" else token for token in right.split(".")]
    if tokens[-1] == ">":
        last = {name.split(".")[1] for name in FACTS if name.split(".")[0] == tokens[-2]}
        tokens[-1:] = [chance.choice(_TOKENS), chance.choice(sorted(last) or ["x"])]
    return ".".join(tokens)


def _body(subject: str, chance: random.Random) -> bytes:
    """Return what is published on a subject: a fact in an envelope, a command, or anything."""
    tokens = subject.split(".")
    command = COMMANDS.get(tokens[-1]) if "request" in tokens else None
    fact = next((FACTS[name] for name in FACTS if tokens[2:] and _is_of(name, tokens)), None)
    value: Any = chance.choice(_TEXTS)
    if command is not None:
        value = _spoilt(_of_schema(_schema_of(command), chance), chance)
    elif fact is not None:
        data = _spoilt(_of_schema(_schema_of(fact), chance), chance)
        of_agent = 3 if tokens[2] == "agent" else -1
        for name, place in (("evaluation", 3), ("run", 4), ("agent", of_agent)):
            if isinstance(data, dict) and name in data and chance.random() < 0.8:
                data[name] = tokens[place] if len(tokens) > abs(place) else "e1"
        schema = fact.schema_name()
        value = {"schema": schema, "version": 1, "id": str(chance.random()), "time_ns": 1}
        value |= {"data": data, "cause": "", "traceparent": ""}
        if chance.random() < 0.2:
            value |= {"payload": chance.choice(_TEXTS), "payload_sha256": chance.choice(_TEXTS)}
        value = _spoilt(value, chance) if chance.random() < 0.3 else value
    if chance.random() < 0.05:
        return chance.randbytes(chance.randrange(200))
    if chance.random() < 0.3 and command is not None:
        return json.dumps(value, default=str).encode("utf-8", "replace")
    try:
        packed: bytes = msgpack.packb(value)
    except (OverflowError, UnicodeEncodeError, ValueError, TypeError):
        return b"\xc1"
    return packed


@cache
def _schema_of(kind: type[Command] | type[Fact]) -> dict[str, Any]:
    return kind.model_json_schema()


def _is_of(name: str, tokens: list[str]) -> bool:
    entity, happened = name.split(".")[:2]
    return tokens[2] == entity and happened in tokens[3:]


def _of_schema(schema: dict[str, Any], chance: random.Random) -> Any:
    """Return a value that nearly meets a JSON schema."""
    definitions = schema.get("$defs", {})

    def made(part: dict[str, Any], depth: int) -> Any:
        if "$ref" in part:
            part = definitions[part["$ref"].rsplit("/", 1)[1]]
        choices = part.get("anyOf") or part.get("oneOf")
        if choices:
            return made(chance.choice(choices), depth)
        if "const" in part or "enum" in part:
            return chance.choice(part.get("enum") or [part.get("const")])
        if depth > 5 or part.get("type") == "null":
            return None
        if part.get("type") == "object":
            fields = part.get("properties", {})
            needed = set(part.get("required", ()))
            chosen = [name for name in fields if name in needed or chance.random() < 0.3]
            return {name: made(fields[name], depth + 1) for name in chosen}
        if part.get("type") == "array":
            items = part.get("items") or {}
            return [made(items, depth + 1) for _ in range(chance.choice((0, 1, 1, 2, 5)))]
        if part.get("type") in ("integer", "number"):
            return chance.choice((0, 1, 2, 3, 100, chance.choice(_NUMBERS)))
        if part.get("type") == "boolean":
            return chance.random() < 0.5
        return chance.choice(_TOKENS if chance.random() < 0.8 else _TEXTS)

    return made(schema, 0)


def _spoilt(value: Any, chance: random.Random) -> Any:
    """Return a value with up to three faults in it."""
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        place, key = value, None
        while isinstance(place, dict | list) and place:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            holder, key = place, chance.choice(keys)
            place = holder[key]
            if chance.random() < 0.4:
                break
        if key is None:
            return chance.choice(_TEXTS)
        holder[key] = _fault(chance)
    return value


def _fault(chance: random.Random) -> Any:
    nested: Any = 1
    for _ in range(chance.choice((40, 300))):
        nested = [nested]
    faults: tuple[Any, ...] = (
        chance.choice(_TEXTS), chance.choice(_NUMBERS), None, True, [], {}, b"\xff\xfe", nested,
        [chance.choice(_TEXTS)] * 200, {"x": {"y": chance.choice(_NUMBERS)}},
    )  # fmt: skip
    return chance.choice(faults)
