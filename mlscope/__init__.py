"""What services share and users import: the client, the bus, loads, tracing, statistics, settings.

Owns: ways of talking, pacing and counting. Knows: no service.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlscope.client import AsyncClient, Client, EvaluationRefused

__all__ = ["AsyncClient", "Client", "EvaluationRefused"]


def __getattr__(name: str) -> Any:
    """Load the client when it is asked for: an agent on a borrowed machine never is."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import mlscope.client

    return getattr(mlscope.client, name)
