"""What the agent's owner allows, from settings; `test_messages` sends it to a worker."""

from mlscope.settings import Settings
from services.agent.default_builders import BUILDERS
from services.agent.link.allowances import (
    DEFAULT_ALLOWANCES,
    Allowances,
    InlineLimits,
)


def test_without_a_word_only_the_shipped_builders_are_allowed() -> None:
    allowed = Allowances.of(Settings.read({}))
    assert allowed == DEFAULT_ALLOWANCES
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
        }
    )
    allowed = Allowances.of(settings)
    assert allowed.inline == InlineLimits(2.5, 3, 64 << 20, 1 << 20)
    assert (allowed.builders, allowed.remote_hosts) == (("own.models", "timm"), ("far.example",))
