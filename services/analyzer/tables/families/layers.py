"""Layers of the model: their time and memory, by layer and by type, in the order of a report."""

from services.analyzer.building.table import Analysis
from services.analyzer.tables.layer_latency import ANALYSIS as LAYER_LATENCY
from services.analyzer.tables.layer_memory import ANALYSIS as LAYER_MEMORY
from services.analyzer.tables.layer_types import ANALYSIS as LAYER_TYPES
from services.analyzer.tables.layers import ANALYSIS as LAYERS
from services.analyzer.tables.memory_by_type import ANALYSIS as MEMORY_BY_TYPE
from services.analyzer.tables.type_distribution import ANALYSIS as TYPE_DISTRIBUTION

ANALYSES: tuple[Analysis, ...] = (
    LAYERS,
    LAYER_LATENCY,
    LAYER_MEMORY,
    TYPE_DISTRIBUTION,
    LAYER_TYPES,
    MEMORY_BY_TYPE,
)
