"""Runs of the scenario `cold`, opening by opening, and the warm runs to compare them with."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlscope.load.scenarios import COLD
from services.analyzer.building.stacks import Stack, stacks_of
from services.analyzer.frames.evaluation import Frames, Run
from services.analyzer.frames.layers import layer_times as layer_spans
from services.analyzer.frames.layers import layers_of


@dataclass(frozen=True, slots=True)
class Openings:
    """Runs of one agent and batch size by level: one for each opening, or the warm ones."""

    agent: str
    batch_size: int
    by_level: Mapping[int, Sequence[Run]]

    def at(self, level: int) -> Sequence[Run]:
        """Return the runs of a level."""
        return self.by_level.get(level, ())

    def shallowest(self, least: int) -> int | None:
        """Return the shallowest level from `least` on whose runs have spans of level `least`."""
        for level in sorted(self.by_level):
            if level >= least and any(run.spans_at(least).height for run in self.by_level[level]):
                return level
        return None


def openings_of(frames: Frames) -> Iterator[tuple[Openings, Openings]]:
    """Yield, by agent and batch size, the cold runs and the warm ones to compare them with."""
    stacks = list(stacks_of(frames, ("", COLD)))
    for key, cold in _openings([s for s in stacks if s.scenario == COLD]).items():
        warm = [s for s in stacks if s.scenario != COLD and (s.agent, s.batch_size) == key]
        # The warm runs of the same openings compare best; else one plain load.
        own = [s for s in warm if s.timed.row.variant == COLD] or warm[:1]
        yield cold, _openings(own).get(key, Openings(*key, by_level={}))


def _openings(stacks: Sequence[Stack]) -> dict[tuple[str, int], Openings]:
    by_key: dict[tuple[str, int], dict[int, list[Run]]] = {}
    for stack in stacks:
        levels = by_key.setdefault((stack.agent, stack.batch_size), {})
        for level, run in stack.by_level.items():
            levels.setdefault(level, []).append(run)
    return {key: Openings(*key, by_level=levels) for key, levels in by_key.items()}


def layer_times(runs: Sequence[Run]) -> dict[tuple[int, str], list[int]]:
    """Return each layer's time (ns) in every query of runs, in the order of the layers."""
    times: dict[tuple[int, str], list[int]] = {}
    for run in runs:
        places = layers_of(run).select("place", "node", "name")
        spans = layer_spans(run).join(places, on="place", maintain_order="left")
        for node, name, time_ns in spans.select("node", "name", "time_ns").iter_rows():
            times.setdefault((node, name), []).append(time_ns)
    return times


def matching_layers(
    cold: Iterable[tuple[int, str]], warm: Iterable[tuple[int, str]]
) -> dict[tuple[int, str], tuple[int, str]]:
    """Return the warm layer of each cold one: layers (node, name) match by name, in their order.

    Their numbers may differ: a layer that a framework discovers in its first run is numbered from
    the next run on.
    """
    by_name_and_rank = {name_and_rank: layer for layer, name_and_rank in _ranked(warm)}
    return {
        layer: by_name_and_rank[name_and_rank]
        for layer, name_and_rank in _ranked(cold)
        if name_and_rank in by_name_and_rank
    }


def _ranked(
    layers: Iterable[tuple[int, str]],
) -> Iterator[tuple[tuple[int, str], tuple[str, int]]]:
    """Yield each layer with its name and its rank among the layers of that name."""
    counts: Counter[str] = Counter()
    for layer in sorted(layers):
        name = layer[1]
        yield layer, (name, counts[name])
        counts[name] += 1
