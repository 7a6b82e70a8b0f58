"""What the agent's owner allows, from settings; `test_messages` sends it to a worker."""

from dataclasses import replace
from pathlib import Path

import pytest

from mlscope.settings import Settings
from services.agent.default_builders import BUILDERS
from services.agent.link.allowances import (
    DEFAULT_ALLOWANCES,
    MAX_AHEAD_BYTES,
    Allowances,
    InlineLimits,
    ahead_limit_bytes,
)


def test_without_a_word_only_the_shipped_builders_are_allowed() -> None:
    settings = Settings.read({"MLSCOPE_DATA": "/data", "MLSCOPE_NATS_SEED_FILE": "/run/seed.nk"})
    allowed = Allowances.of(settings)
    assert allowed == replace(DEFAULT_ALLOWANCES, hidden=(Path("/data"), Path("/run/seed.nk")))
    assert allowed.sandbox == "auto"
    assert (allowed.inline, allowed.builders, allowed.remote_hosts) == (None, BUILDERS, ())


def test_settings_allow_more() -> None:
    settings = Settings.read(
        {
            "MLSCOPE_ALLOW_INLINE_PYTHON": "yes",
            "MLSCOPE_INLINE_TIMEOUT_S": "2.5",
            "MLSCOPE_INLINE_CPU_S": "3",
            "MLSCOPE_INLINE_MEMORY_BYTES": "64MiB",
            "MLSCOPE_INLINE_OUTPUT_BYTES": "1MiB",
            "MLSCOPE_BUILDERS": "own.models, timm",
            "MLSCOPE_REMOTE_HOSTS": "far.example",
            "MLSCOPE_WORKER_USER": "agent",
        }
    )
    allowed = Allowances.of(settings)
    assert allowed.inline == InlineLimits(2.5, 3, 64 << 20, 1 << 20)
    assert (allowed.builders, allowed.remote_hosts) == (("own.models", "timm"), ("far.example",))
    assert (DEFAULT_ALLOWANCES.worker_user, allowed.worker_user) == ("auto", "agent")


@pytest.mark.parametrize(
    ("texts", "allowed_bytes"),
    [
        ({}, None),
        ({"MLSCOPE_AHEAD_BYTES": "3KiB"}, 3072),
        ({"MLSCOPE_AHEAD_BYTES": "0", "MLSCOPE_WORKER_MEMORY_BYTES": "1GiB"}, 0),
        ({"MLSCOPE_WORKER_MEMORY_BYTES": "1GiB"}, 1 << 28),
        ({"MLSCOPE_WORKER_MEMORY_BYTES": "999GiB"}, MAX_AHEAD_BYTES),
    ],
)
def test_prepared_batches_may_take_a_share_of_a_worker_s_memory(
    texts: dict[str, str], allowed_bytes: int | None
) -> None:
    assert Allowances.of(Settings.read(texts)).ahead_bytes == allowed_bytes


def test_prepared_batches_never_take_more_than_is_available() -> None:
    assert ahead_limit_bytes(None, 4096) == 1024
    assert ahead_limit_bytes(None, 1 << 40) == MAX_AHEAD_BYTES
    assert ahead_limit_bytes(1 << 40, 4096) == 4096
    assert ahead_limit_bytes(9, 4096) == 9
    assert ahead_limit_bytes(1 << 50, 0) == MAX_AHEAD_BYTES
