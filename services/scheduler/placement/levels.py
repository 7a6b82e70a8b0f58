"""The levels to measure, each on its own, in each variant of sessions. Pure.

At level model or above only that level is measured; deeper, model and each level down to the one
asked for, because a number for a level comes from runs where that level is the deepest one on.
Levels that the agent cannot trace are left out, except the one asked for: the agent traces as deep
as it can and says so. A request that names levels gets those instead.

Hardware counters are read in sessions of their own. So is a serialised repetition, one launch at a
time: on request, or because operators that run side by side would leave the parents of spans
ambiguous.
"""

from schemas.level import Level
from schemas.plan import Build, Variant
from schemas.request import Evaluate
from services.scheduler.errors import invalid
from services.scheduler.placement.candidates import Candidate

Levels = tuple[Level, ...]


def levels_by_variant(request: Evaluate, agent: Candidate, build: Build) -> dict[Variant, Levels]:
    """Return the levels to measure in each variant of sessions, on an `agent` with a `build`.

    Raises RequestRefused where the request names a variant that has nothing to measure.
    """
    level = request.trace_level
    has_counters = Level.HARDWARE in agent.offer.collected and level >= Level.HARDWARE
    inner = Level.SYSTEM if has_counters and level == Level.HARDWARE else level
    named = {*request.levels}
    if has_counters and len(named) > 1:
        # Counters are read in a process of their own, whether their level is named or implied.
        named.discard(Level.HARDWARE)
    variants: dict[Variant, Levels] = {
        "": tuple(sorted(named))
        or levels_of(inner, agent.offer.framework_level, agent.offer.collected)
    }
    threads = build.options.get("inter_threads", 1)
    # Operators that run side by side leave the parents of deeper spans ambiguous.
    is_ambiguous = isinstance(threads, int) and threads > 1 and level > Level.FRAMEWORK
    if request.serialised or is_ambiguous:
        variants["serialised"] = (min(level, Level.SYSTEM),)
    if has_counters:
        variants["counters"] = (Level.HARDWARE,)
    for variant in request.variants:
        if variant not in variants:
            allowed = ", ".join(name or "'' (plain)" for name in variants)
            raise invalid("variants", variant, f"of this level on {agent.agent}: {allowed}")
    if not request.variants:
        return variants
    return {name: levels for name, levels in variants.items() if name in request.variants}


def levels_of(level: Level, deepest: Level, collected: frozenset[Level] = frozenset()) -> Levels:
    """Return the levels to measure, each on its own, for a `level` asked for.

    The agent's framework is traced down to `deepest`; `collected` are the levels that its other
    collectors add.
    """
    if level <= Level.MODEL:
        return (level,)
    available = {own for own in Level if own <= deepest} | collected | {Level.MODEL}
    below_full = Level.SYSTEM if level == Level.FULL else level
    inner = sorted(own for own in available if Level.MODEL <= own <= below_full)
    # Without the level itself, its run is traced as deep as the deepest level that there is.
    between = [own for own in inner if own < level][: None if level in inner else -1]
    return (*(between or [Level.MODEL]), level)
