"""The span tree: spans of all sources on one clock, each with its parent and layer.

Owns: parents by containment and by launch, the layer of each span, spans without a place.
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
