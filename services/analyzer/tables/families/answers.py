"""Late and slow queries, answers, failures and attempts, in the order of a report."""

from services.analyzer.building.table import Analysis
from services.analyzer.tables.accuracy import ANALYSIS as ACCURACY
from services.analyzer.tables.attempts import ANALYSIS as ATTEMPTS
from services.analyzer.tables.failures import ANALYSIS as FAILURES
from services.analyzer.tables.lateness import ANALYSIS as LATENESS
from services.analyzer.tables.outputs import ANALYSIS as OUTPUTS
from services.analyzer.tables.tail import ANALYSIS as TAIL

ANALYSES: tuple[Analysis, ...] = (
    TAIL,
    LATENESS,
    ACCURACY,
    OUTPUTS,
    FAILURES,
    ATTEMPTS,
)
