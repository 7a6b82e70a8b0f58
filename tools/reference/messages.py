"""The page of messages: facts and commands with their subjects and fields, from the contract."""

import inspect

import yaml

from schemas.encoding.message_index import COMMANDS, FACTS
from schemas.export.documents import ANSWERS, ASYNCAPI_FILE, documents
from schemas.message import Message
from tools.reference.markdown import code, table
from tools.reference.types import default_text, type_text

_HEAD = """# Messages

The contract of the services. Facts are durable, in the past tense, and have an envelope. Commands
are requests that a client with a requester's or a person's key may send, in JSON or msgpack,
without an envelope. `schemas/v1` in the repository holds a JSON Schema for each message and one
AsyncAPI document.

"""


def messages_page() -> str:
    """Return the page as Markdown."""
    commands = (
        (code(f"mlscope.v1.request.{verb}"), _summary(command), code(ANSWERS[verb].__name__))
        for verb, command in COMMANDS.items()
    )
    facts = ((code(name), _summary(fact)) for name, fact in FACTS.items())
    fields = "\n".join(_fields(message) for message in (*COMMANDS.values(), *FACTS.values()))
    answers = "\n".join(_fields(answer) for answer in dict.fromkeys(ANSWERS.values()))
    channels = (
        (code(name), code(channel.get("address", "")))
        for name, channel in yaml.safe_load(documents()[ASYNCAPI_FILE])["channels"].items()
    )
    return (
        f"{_HEAD}## Commands\n\n{table(('Subject', 'Meaning', 'Answer'), commands)}\n"
        f"## Facts\n\n{table(('Fact', 'Meaning'), facts)}\n"
        f"## Subjects\n\n{table(('Channel', 'Subject'), channels)}\n"
        f"## Fields\n\n{fields}\n## Answers\n\n{answers}"
    )


def _summary(message: type[Message]) -> str:
    return (inspect.getdoc(message) or "").split("\n\n")[0]


def _fields(message: type[Message]) -> str:
    rows = [
        (code(name), code(type_text(field.annotation)), code(default_text(field.default)))
        for name, field in message.model_fields.items()
    ]
    doc = inspect.getdoc(message) or ""
    listed = table(("Field", "Type", "Default"), rows) if rows else "It has no fields.\n"
    return f"### {message.__name__}\n\n{doc}\n\n{listed}"
