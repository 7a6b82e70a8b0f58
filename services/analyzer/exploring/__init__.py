"""Explorations of many evaluations, one a file: pure functions from their main figures to a table.

Owns: what is drawn over all evaluations, as the papers draw it. Knows: the columns of the table
`headline`. Does not know: an evaluation's tables, runs or spans.
"""

from services.analyzer.exploring.accuracy import LATENCY, THROUGHPUT
from services.analyzer.exploring.cold import EXPLORATION as COLD
from services.analyzer.exploring.cost import EXPLORATION as COST
from services.analyzer.exploring.devices import EXPLORATION as DEVICES
from services.analyzer.exploring.frameworks import EXPLORATION as FRAMEWORKS
from services.analyzer.exploring.history import EXPLORATION as HISTORY
from services.analyzer.exploring.source import Exploration
from services.analyzer.exploring.speedup import EXPLORATION as SPEEDUP
from services.analyzer.exploring.systems import EXPLORATION as SYSTEMS

EXPLORATIONS: tuple[Exploration, ...] = (
    LATENCY,
    THROUGHPUT,
    SPEEDUP,
    SYSTEMS,
    DEVICES,
    FRAMEWORKS,
    COST,
    COLD,
    HISTORY,
)
"""Every exploration, in the order of the page."""
