"""The configuration's text says what it must, and no user is written without limits."""

import pytest

from cli.cluster.nats_conf import NatsLayout, nats_conf

LAYOUT = NatsLayout("/data/na ts", "127.0.0.1", 4222, "127.0.0.1", 8222)


def test_what_is_acknowledged_is_on_disk() -> None:
    text = nats_conf(LAYOUT, {"requester": "UREQ"})
    assert "sync_interval: always" in text
    assert 'store_dir: "/data/na ts"' in text
    assert 'listen: "127.0.0.1:4222"' in text


def test_every_user_has_permissions() -> None:
    text = nats_conf(LAYOUT, {"requester": "UREQ", "agent": "UAGENT"})
    assert text.count("nkey:") == text.count("permissions:") == 2
    assert '"mlscope.v1.request.evaluate"' in text


def test_an_unknown_name_gets_no_user() -> None:
    with pytest.raises(KeyError):
        nats_conf(LAYOUT, {"stranger": "U"})
