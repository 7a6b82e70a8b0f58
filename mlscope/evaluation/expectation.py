"""How long a request will take, as a text. Pure."""

from mlscope.counts import many
from schemas.status import Matched


def expected_text(matched: Matched) -> str:
    """Return how long the runs of a `matched` request will take; '' if no earlier run tells.

    It is `about 40 s (from 6 earlier runs of this model on this agent)`.
    """
    if matched.expected_s is None:
        return ""
    agents = sum(agent.chosen for agent in matched.agents)
    where = "this agent" if agents < 2 else "these agents"
    runs = many(matched.expected_from, "earlier run")
    return f"about {rounded_time(matched.expected_s)} (from {runs} of this model on {where})"


def rounded_time(duration_s: float) -> str:
    """Return `duration_s` seconds as a person says them: `40 s`, `12 min`, `3.5 h`."""
    if duration_s < 120:
        return f"{duration_s:.1g} s" if duration_s < 1 else f"{duration_s:.0f} s"
    if duration_s < 7200:
        return f"{duration_s / 60:.0f} min"
    return f"{duration_s / 3600:.1f} h"
