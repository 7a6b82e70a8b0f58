"""Devices and the host: use, copies, clocks, memory, opening, energy, in the order of a report."""

from services.analyzer.building.table import Analysis
from services.analyzer.tables.cold_layers import ANALYSIS as COLD_LAYERS
from services.analyzer.tables.cold_start import ANALYSIS as COLD_START
from services.analyzer.tables.copies import ANALYSIS as COPIES
from services.analyzer.tables.copies_by_layer import ANALYSIS as COPIES_BY_LAYER
from services.analyzer.tables.device_conditions import ANALYSIS as DEVICE_CONDITIONS
from services.analyzer.tables.device_use import ANALYSIS as DEVICE_USE
from services.analyzer.tables.energy import ANALYSIS as ENERGY
from services.analyzer.tables.host_counters import ANALYSIS as HOST_COUNTERS
from services.analyzer.tables.memory import ANALYSIS as MEMORY

ANALYSES: tuple[Analysis, ...] = (
    DEVICE_USE,
    COPIES,
    COPIES_BY_LAYER,
    DEVICE_CONDITIONS,
    HOST_COUNTERS,
    MEMORY,
    COLD_START,
    COLD_LAYERS,
    ENERGY,
)
