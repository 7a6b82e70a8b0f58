"""Runs, their queries, and what a query is made of, in the order of a report."""

from services.analyzer.building.table import Analysis
from services.analyzer.tables.blocks import ANALYSIS as BLOCKS
from services.analyzer.tables.conditions import ANALYSIS as CONDITIONS
from services.analyzer.tables.latency import ANALYSIS as LATENCY
from services.analyzer.tables.latency_histogram import ANALYSIS as LATENCY_HISTOGRAM
from services.analyzer.tables.layer_overheads import ANALYSIS as LAYER_OVERHEADS
from services.analyzer.tables.levels import ANALYSIS as LEVELS
from services.analyzer.tables.operators import ANALYSIS as OPERATORS
from services.analyzer.tables.optimal_batch import ANALYSIS as OPTIMAL_BATCH
from services.analyzer.tables.pipeline_stages import ANALYSIS as PIPELINE_STAGES
from services.analyzer.tables.preparation import ANALYSIS as PREPARATION
from services.analyzer.tables.throughput import ANALYSIS as THROUGHPUT

ANALYSES: tuple[Analysis, ...] = (
    CONDITIONS,
    LATENCY,
    LATENCY_HISTOGRAM,
    BLOCKS,
    THROUGHPUT,
    OPTIMAL_BATCH,
    LEVELS,
    LAYER_OVERHEADS,
    OPERATORS,
    PREPARATION,
    PIPELINE_STAGES,
)
