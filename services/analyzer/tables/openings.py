"""Runs of the scenario `cold`, opening by opening, beside what the same takes warm."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlscope.load.scenarios import COLD
from services.analyzer.frames import Frames, Run
from services.analyzer.tables.layer_frames import layer_times as layer_spans
from services.analyzer.tables.layer_frames import layers_of
from services.analyzer.tables.stacks import Stack, stacks_of


@dataclass(frozen=True, slots=True)
class Openings:
    """Runs of one agent and batch size by level: an opening each, or what it takes warm."""

    agent: str
    batch_size: int
    by_level: Mapping[int, Sequence[Run]]

    def at(self, level: int) -> Sequence[Run]:
        """Return the runs of a level."""
        return self.by_level.get(level, ())

    def shallowest(self, least: int) -> int | None:
        """Return the shallowest level from `least` on whose runs have its spans."""
        return next(
            (n for n in sorted(self.by_level) if n >= least and self._tells(n, least)), None
        )

    def _tells(self, level: int, least: int) -> bool:
        return any(run.spans_at(least).height for run in self.by_level[level])


def openings_of(frames: Frames) -> Iterator[tuple[Openings, Openings]]:
    """Yield, by agent and batch size, the cold runs and the warm ones to compare them with."""
    stacks = list(stacks_of(frames, ("", COLD)))
    for key, cold in _openings([s for s in stacks if s.scenario == COLD]).items():
        warm = [s for s in stacks if s.scenario != COLD and (s.agent, s.batch_size) == key]
        # Those of the same openings are nearest; else one plain load.
        own = [s for s in warm if s.timed.row.variant == COLD] or warm[:1]
        yield cold, _openings(own).get(key, Openings(*key, by_level={}))


def _openings(stacks: Sequence[Stack]) -> dict[tuple[str, int], Openings]:
    found: dict[tuple[str, int], dict[int, list[Run]]] = {}
    for stack in stacks:
        levels = found.setdefault((stack.agent, stack.batch_size), {})
        for level, run in stack.by_level.items():
            levels.setdefault(level, []).append(run)
    return {key: Openings(*key, by_level=levels) for key, levels in found.items()}


def layer_times(runs: Sequence[Run]) -> dict[tuple[int, str], list[int]]:
    """Return each layer's time (ns) in every query of runs, in the order of the layers."""
    found: dict[tuple[int, str], list[int]] = {}
    for run in runs:
        places = layers_of(run).select("place", "node", "name")
        told = layer_spans(run).join(places, on="place", maintain_order="left")
        for node, name, time_ns in told.select("node", "name", "time_ns").iter_rows():
            found.setdefault((node, name), []).append(time_ns)
    return found


def alike(
    first: Iterable[tuple[int, str]], again: Iterable[tuple[int, str]]
) -> dict[tuple[int, str], tuple[int, str]]:
    """Return which layer of warm runs is which of cold ones: those of a name in their order.

    Their numbers may differ: what a framework finds in its first run is numbered from the next on.
    """
    known = {told: key for key, told in _numbered(again).items()}
    return {key: known[told] for key, told in _numbered(first).items() if told in known}


def _numbered(layers: Iterable[tuple[int, str]]) -> dict[tuple[int, str], tuple[str, int]]:
    """Return each layer's name, and which of the layers of that name it is."""
    seen: Counter[str] = Counter()
    found = {}
    for key in sorted(layers):
        found[key] = key[1], seen[key[1]]
        seen[key[1]] += 1
    return found
