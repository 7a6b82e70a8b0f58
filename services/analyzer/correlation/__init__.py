"""Which span lies in which: spans of all sources, on one clock, as one tree.

Owns: parents by containment and by launch, the layer of each span, what can't be placed.
Knows: levels and kinds of spans (the contract). Does not know: runs, tables, the database.
"""

from services.analyzer.correlation.tree import (
    GRAPH,
    LAUNCH,
    METHODS,
    NONE,
    TOLERANCE_NS,
    Correlated,
    correlate,
    correlated,
)

__all__ = [
    "GRAPH",
    "LAUNCH",
    "METHODS",
    "NONE",
    "TOLERANCE_NS",
    "Correlated",
    "correlate",
    "correlated",
]
