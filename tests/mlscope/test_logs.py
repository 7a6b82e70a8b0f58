"""A log record is one line of key=value without secrets."""

import io
import json
import logging

import pytest

from mlscope.logs import JsonFormatter, LineFormatter
from mlscope.redaction import redact

SEED = "SU" + "A" * 56


@pytest.fixture
def log() -> tuple[logging.Logger, io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter("collector"))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    return logger, stream


def test_fields_follow_the_event(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = log
    logger.info("run started", extra={"run": "r1", "note": "two words"})
    line = stream.getvalue()
    assert 'level=info service=collector logger=test event="run started" run=r1' in line
    assert line.endswith('note="two words"\n')


def test_a_traceback_stays_on_the_line(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = log
    try:
        raise ValueError('say "no"\nplease')
    except ValueError:
        logger.exception("failed")
    assert stream.getvalue().count("\n") == 1
    assert 'ValueError: say \\"no\\"\\nplease' in stream.getvalue()


def test_a_strangers_text_makes_no_line_of_its_own(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = log
    logger.warning("refused", extra={"subject": "x\nat=1 level=error", "body": "\x1b[2J\r"})
    assert stream.getvalue().count("\n") == 1
    assert 'subject="x\\nat=1 level=error" body="\\x1b[2J\\r"' in stream.getvalue()


def test_secrets_are_hidden_by_name_and_by_look(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = log
    logger.info("to %s with %s", "postgresql://me:hunter2@db/x", SEED, extra={"token": "abc"})
    assert "hunter2" not in stream.getvalue()
    assert SEED not in stream.getvalue()
    assert "token=***" in stream.getvalue()


def test_what_is_no_secret_stays() -> None:
    for text in ("http://127.0.0.1:8080/e/1", "nats://me@host:4222", "SUNDAY"):
        assert redact(text) == text


def test_a_bearer_token_is_hidden() -> None:
    assert redact("Authorization: Bearer abc.def") == "Authorization: Bearer ***"


@pytest.mark.parametrize(
    "text",
    [
        "host=db password=hunter2 user=x",
        "password = 'hunter2 \\' b'",
        "x; mlscope_session=hunter2; y",
    ],
)
def test_passwords_of_libpq_and_session_cookies_are_hidden(text: str) -> None:
    assert "hunter2" not in redact(text)
    assert "b'" not in redact(text)


def test_as_json_a_line_is_one_object_with_evaluation_and_run() -> None:
    where = {"evaluation": "e1", "run": "r1"}
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter("agent"))
    logger = logging.Logger("json")
    logger.addHandler(handler)
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        logger.exception("%s", SEED, extra={**where, "tries": 3, "rate": float("nan")})
    assert stream.getvalue().count("\n") == 1
    said = json.loads(stream.getvalue())
    assert (said["service"], said["level"]) == ("agent", "error")
    assert (said["evaluation"], said["run"], said["tries"]) == ("e1", "r1", 3)
    assert said["rate"] == "nan"  # JSON has no such number
    assert "first\nsecond" in said["traceback"]
    assert SEED not in stream.getvalue()
