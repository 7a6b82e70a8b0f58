"""The analyses, one a file: pure functions from frames to tables, and the list of them.

Each names its formula's source and describes its columns with units. To add one: a file with its
function and its `ANALYSIS`, and two lines here, an import and a place in `ANALYSES`.
"""

from services.analyzer.building.table import Analysis
from services.analyzer.tables.accuracy import ANALYSIS as ACCURACY
from services.analyzer.tables.attempts import ANALYSIS as ATTEMPTS
from services.analyzer.tables.blocks import ANALYSIS as BLOCKS
from services.analyzer.tables.cold_layers import ANALYSIS as COLD_LAYERS
from services.analyzer.tables.cold_start import ANALYSIS as COLD_START
from services.analyzer.tables.conditions import ANALYSIS as CONDITIONS
from services.analyzer.tables.copies import ANALYSIS as COPIES
from services.analyzer.tables.device_conditions import ANALYSIS as DEVICE_CONDITIONS
from services.analyzer.tables.device_use import ANALYSIS as DEVICE_USE
from services.analyzer.tables.energy import ANALYSIS as ENERGY
from services.analyzer.tables.failures import ANALYSIS as FAILURES
from services.analyzer.tables.gpu_and_rest import ANALYSIS as GPU_AND_REST
from services.analyzer.tables.host_counters import ANALYSIS as HOST_COUNTERS
from services.analyzer.tables.kernel_counters import ANALYSIS as KERNEL_COUNTERS
from services.analyzer.tables.kernel_roofline import ANALYSIS as KERNEL_ROOFLINE
from services.analyzer.tables.kernels import ANALYSIS as KERNELS
from services.analyzer.tables.kernels_by_layer import ANALYSIS as KERNELS_BY_LAYER
from services.analyzer.tables.kernels_by_model import ANALYSIS as KERNELS_BY_MODEL
from services.analyzer.tables.kernels_by_name import ANALYSIS as KERNELS_BY_NAME
from services.analyzer.tables.latency import ANALYSIS as LATENCY
from services.analyzer.tables.lateness import ANALYSIS as LATENESS
from services.analyzer.tables.layer_counters import ANALYSIS as LAYER_COUNTERS
from services.analyzer.tables.layer_latency import ANALYSIS as LAYER_LATENCY
from services.analyzer.tables.layer_memory import ANALYSIS as LAYER_MEMORY
from services.analyzer.tables.layer_overheads import ANALYSIS as LAYER_OVERHEADS
from services.analyzer.tables.layer_roofline import ANALYSIS as LAYER_ROOFLINE
from services.analyzer.tables.layer_types import ANALYSIS as LAYER_TYPES
from services.analyzer.tables.layers import ANALYSIS as LAYERS
from services.analyzer.tables.levels import ANALYSIS as LEVELS
from services.analyzer.tables.memory import ANALYSIS as MEMORY
from services.analyzer.tables.memory_by_type import ANALYSIS as MEMORY_BY_TYPE
from services.analyzer.tables.operators import ANALYSIS as OPERATORS
from services.analyzer.tables.optimal_batch import ANALYSIS as OPTIMAL_BATCH
from services.analyzer.tables.outputs import ANALYSIS as OUTPUTS
from services.analyzer.tables.pipeline_stages import ANALYSIS as PIPELINE_STAGES
from services.analyzer.tables.preparation import ANALYSIS as PREPARATION
from services.analyzer.tables.roof_distance import ANALYSIS as ROOF_DISTANCE
from services.analyzer.tables.stages import ANALYSIS as STAGES
from services.analyzer.tables.static_work import ANALYSIS as STATIC_WORK
from services.analyzer.tables.tail import ANALYSIS as TAIL
from services.analyzer.tables.throughput import ANALYSIS as THROUGHPUT
from services.analyzer.tables.type_distribution import ANALYSIS as TYPE_DISTRIBUTION
from services.analyzer.tables.work_kinds import ANALYSIS as WORK_KINDS

ANALYSES: tuple[Analysis, ...] = (
    CONDITIONS,
    LATENCY,
    BLOCKS,
    THROUGHPUT,
    OPTIMAL_BATCH,
    LEVELS,
    LAYER_OVERHEADS,
    OPERATORS,
    PREPARATION,
    PIPELINE_STAGES,
    LAYERS,
    LAYER_LATENCY,
    LAYER_MEMORY,
    TYPE_DISTRIBUTION,
    LAYER_TYPES,
    MEMORY_BY_TYPE,
    KERNELS,
    KERNEL_ROOFLINE,
    KERNELS_BY_NAME,
    KERNELS_BY_LAYER,
    LAYER_COUNTERS,
    KERNEL_COUNTERS,
    GPU_AND_REST,
    LAYER_ROOFLINE,
    KERNELS_BY_MODEL,
    STAGES,
    WORK_KINDS,
    STATIC_WORK,
    ROOF_DISTANCE,
    DEVICE_USE,
    COPIES,
    DEVICE_CONDITIONS,
    HOST_COUNTERS,
    MEMORY,
    COLD_START,
    COLD_LAYERS,
    ENERGY,
    TAIL,
    LATENESS,
    ACCURACY,
    OUTPUTS,
    FAILURES,
    ATTEMPTS,
)
"""Every table, in the order of a report: runs and their queries; then layers, kernels, and both
together; the device, memory and energy; answers, failures and attempts. A1 to A15 are in order."""
