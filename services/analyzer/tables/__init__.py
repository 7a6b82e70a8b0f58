"""The analyses, one a file: pure functions from frames to tables, and the list of them.

Each names its formula's source and describes its columns with units. To add one: a file with its
function and its `ANALYSIS`, and a line here.
"""

from services.analyzer.tables.accuracy import ANALYSIS as ACCURACY
from services.analyzer.tables.attempts import ANALYSIS as ATTEMPTS
from services.analyzer.tables.conditions import ANALYSIS as CONDITIONS
from services.analyzer.tables.failures import ANALYSIS as FAILURES
from services.analyzer.tables.latency import ANALYSIS as LATENCY
from services.analyzer.tables.lateness import ANALYSIS as LATENESS
from services.analyzer.tables.layer_types import ANALYSIS as LAYER_TYPES
from services.analyzer.tables.layers import ANALYSIS as LAYERS
from services.analyzer.tables.levels import ANALYSIS as LEVELS
from services.analyzer.tables.operators import ANALYSIS as OPERATORS
from services.analyzer.tables.optimal_batch import ANALYSIS as OPTIMAL_BATCH
from services.analyzer.tables.outputs import ANALYSIS as OUTPUTS
from services.analyzer.tables.table import Analysis
from services.analyzer.tables.throughput import ANALYSIS as THROUGHPUT

ANALYSES: tuple[Analysis, ...] = (
    CONDITIONS,
    LATENCY,
    THROUGHPUT,
    OPTIMAL_BATCH,
    LEVELS,
    OPERATORS,
    LAYERS,
    LAYER_TYPES,
    LATENESS,
    ACCURACY,
    OUTPUTS,
    FAILURES,
    ATTEMPTS,
)
"""Every table, in the order of a report."""
