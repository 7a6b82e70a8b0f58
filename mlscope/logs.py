"""Logging with the standard library: a line for each record, as text or JSON, without secrets."""

import json
import logging
import math
import re
import sys
import time
from typing import TextIO

from mlscope.redaction import HIDDEN, is_secret_name, redact
from mlscope.texts.printable import escaped
from mlscope.texts.shortening import at_most

_PLAIN = re.compile(r"[^\s\"'=\\\x00-\x1f\x7f-\x9f]+")
_MOST_OF_CAUSE = 500
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
    "color_message",
}


def quoted(value: object) -> str:
    """Return a value as text without secrets, in quotes if needed."""
    text = redact(str(value))
    if _PLAIN.fullmatch(text):
        return text
    quotable = text.replace("\\", "\\\\").replace('"', '\\"')
    # A logged message may contain newlines and terminal codes of its sender.
    return f'"{escaped(quotable)}"'


def cut_cause(text: str) -> str:
    """Return a cause as a line of a log has it: without secrets, and at most 500 characters.

    A secret is looked for in the whole text: the part that a cut leaves does not look like one.
    """
    return at_most(redact(text), _MOST_OF_CAUSE)


class LineFormatter(logging.Formatter):
    """Formats a record as `at=… level=… service=… logger=… event="…" key=value …`, one line."""

    def __init__(self, service: str) -> None:
        """Give the name of the service, which every line contains."""
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; the fields of `extra` follow the event, a traceback comes last."""
        pairs = self.pairs(record)
        return " ".join(f"{name}={quoted(value)}" for name, value in pairs.items())

    def pairs(self, record: logging.LogRecord) -> dict[str, object]:
        """Return what is said of a record, in the order of its line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        pairs: dict[str, object] = {
            "at": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "service": self._service,
            "logger": record.name,
            "event": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in _STANDARD:
                pairs[name] = HIDDEN if is_secret_name(name) else value
        if record.exc_info:
            pairs["traceback"] = self.formatException(record.exc_info)
        return pairs


class JsonFormatter(LineFormatter):
    """Formats a record as one JSON object with the same fields, one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object; finite numbers and truth values stay such, all else is text."""

        def of_json(value: object) -> object:
            is_number = isinstance(value, int) or (
                isinstance(value, float) and math.isfinite(value)
            )
            return value if is_number else redact(str(value))

        fields = {name: of_json(value) for name, value in self.pairs(record).items()}
        return json.dumps(fields, allow_nan=False)


_FORMATTERS = {"text": LineFormatter, "json": JsonFormatter}


def set_up_logging(
    service: str, level: str = "info", stream: TextIO | None = None, *, form: str = "text"
) -> None:
    """Write the records of all loggers from `level` up to `stream` (default: stderr).

    Each record is one line, which names the `service`; its `form` is `text` or `json`.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_FORMATTERS[form](service))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
