"""What an agent's owner allows: from settings, through an order, to a worker."""

import msgpack

from mlscope.settings import Settings
from services.agent.allowances import NO_MORE, Allowances, InlineLimits, allowances_of
from services.agent.predictors import BUILDERS


def test_without_a_word_only_the_shipped_builders_are_allowed() -> None:
    allowed = Allowances.of(Settings.read({}))
    assert allowed == NO_MORE
    assert (allowed.inline, allowed.builders, allowed.remote_hosts) == (None, BUILDERS, ())


def test_settings_allow_more_and_travel_with_an_order() -> None:
    settings = Settings.read(
        {
            "MLSCOPE_ALLOW_INLINE_PYTHON": "yes",
            "MLSCOPE_INLINE_TIMEOUT_S": "2.5",
            "MLSCOPE_INLINE_CPU_S": "3",
            "MLSCOPE_INLINE_MEMORY_BYTES": "64MiB",
            "MLSCOPE_INLINE_OUTPUT_BYTES": "1MiB",
            "MLSCOPE_BUILDERS": "own.models, timm",
            "MLSCOPE_REMOTE_HOSTS": "far.example",
        }
    )
    allowed = Allowances.of(settings)
    assert allowed.inline == InlineLimits(2.5, 3, 64 << 20, 1 << 20)
    assert (allowed.builders, allowed.remote_hosts) == (("own.models", "timm"), ("far.example",))
    assert allowances_of(msgpack.unpackb(msgpack.packb(allowed.words()))) == allowed
    assert allowances_of(msgpack.unpackb(msgpack.packb(NO_MORE.words()))) == NO_MORE
