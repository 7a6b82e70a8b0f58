"""How much of an evaluation is read: the most rows of each kind, and each run's share of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most rows read of an evaluation."""

    spans: int = 4_000_000
    queries: int = 2_000_000
    outputs: int = 100_000
    #: values of sampled series: 14 of a GPU at 10 Hz and the process's own are 180 a second
    samples: int = 1_000_000
    #: spans of devices whose source names their layer
    named_layers: int = 1_000_000

    def shared(self, stored: Sequence[Mapping[str, int]]) -> list["Bounds"]:
        """Return each run's bounds; `stored` counts the stored rows of each run by kind."""
        by_kind = {
            kind.name: shares([rows[kind.name] for rows in stored], getattr(self, kind.name))
            for kind in fields(self)
        }
        return [
            Bounds(**{kind: counts[place] for kind, counts in by_kind.items()})
            for place in range(len(stored))
        ]


def shares(counts: Sequence[int], total: int) -> list[int]:
    """Return how many rows each of `counts` may have, `total` in all.

    Small counts are granted in full; the large ones share the rest equally.
    """
    granted, remaining = [0] * len(counts), total
    by_size = sorted(range(len(counts)), key=lambda place: counts[place])
    for waiting, place in zip(range(len(counts), 0, -1), by_size, strict=True):
        granted[place] = remaining // waiting
        remaining -= min(counts[place], granted[place])
    return granted
