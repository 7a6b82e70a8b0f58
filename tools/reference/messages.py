"""The page of messages: facts and commands with their subjects and fields, from the contract."""

import inspect

import yaml

from schemas.encoding.message_index import COMMANDS, FACTS
from schemas.export.documents import ANSWERS, ASYNCAPI_FILE, documents
from schemas.message import Message
from tools.reference.markdown import code, table

_HEAD = """# Messages

The contract of the services. Facts are durable, in the past tense, and have an envelope; commands
are requests that anyone with a requester's key may send, in JSON or msgpack, without an envelope.
`schemas/v1` in the repository holds a JSON Schema for each message and one AsyncAPI document.

"""


def messages_page() -> str:
    """Return the page as Markdown."""
    commands = (
        (code(f"mlscope.v1.request.{verb}"), _summary(command), _link(ANSWERS[verb]))
        for verb, command in COMMANDS.items()
    )
    facts = ((code(name), _summary(fact)) for name, fact in FACTS.items())
    fields = "\n".join(_fields(message) for message in (*COMMANDS.values(), *FACTS.values()))
    answers = "\n".join(_fields(answer) for answer in dict.fromkeys(ANSWERS.values()))
    return (
        f"{_HEAD}## Commands\n\n{table(('Subject', 'Meaning', 'Answer'), commands)}\n"
        f"## Facts\n\n{table(('Fact', 'Meaning'), facts)}\n"
        f"## Subjects\n\n{_channels()}\n"
        f"## Fields\n\n{fields}\n## Answers\n\n{answers}"
    )


def _summary(message: type[Message]) -> str:
    return (inspect.getdoc(message) or "").split("\n\n")[0]


def _link(message: type[Message]) -> str:
    return code(message.__name__)


def _channels() -> str:
    channels = yaml.safe_load(documents()[ASYNCAPI_FILE])["channels"]
    rows = ((code(name), code(channel.get("address", ""))) for name, channel in channels.items())
    return table(("Channel", "Subject"), rows)


def _fields(message: type[Message]) -> str:
    rows = [
        (code(name), code(str(field.annotation).replace("schemas.", "")), _default(field.default))
        for name, field in message.model_fields.items()
    ]
    doc = inspect.getdoc(message) or ""
    listed = table(("Field", "Type", "Default"), rows) if rows else "It has no fields.\n"
    return f"### {message.__name__}\n\n{doc}\n\n{listed}"


def _default(default: object) -> str:
    text = repr(default)
    return "" if "Undefined" in text else code(text)
