"""Kernels, alone and by layer, and layers against them, in the order of a report."""

from services.analyzer.building.table import Analysis
from services.analyzer.tables.gpu_and_rest import ANALYSIS as GPU_AND_REST
from services.analyzer.tables.kernel_counters import ANALYSIS as KERNEL_COUNTERS
from services.analyzer.tables.kernel_roofline import ANALYSIS as KERNEL_ROOFLINE
from services.analyzer.tables.kernels import ANALYSIS as KERNELS
from services.analyzer.tables.kernels_by_layer import ANALYSIS as KERNELS_BY_LAYER
from services.analyzer.tables.kernels_by_model import ANALYSIS as KERNELS_BY_MODEL
from services.analyzer.tables.kernels_by_name import ANALYSIS as KERNELS_BY_NAME
from services.analyzer.tables.layer_counters import ANALYSIS as LAYER_COUNTERS
from services.analyzer.tables.layer_roofline import ANALYSIS as LAYER_ROOFLINE
from services.analyzer.tables.roof_distance import ANALYSIS as ROOF_DISTANCE
from services.analyzer.tables.stages import ANALYSIS as STAGES
from services.analyzer.tables.static_work import ANALYSIS as STATIC_WORK
from services.analyzer.tables.work_kinds import ANALYSIS as WORK_KINDS

ANALYSES: tuple[Analysis, ...] = (
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
)
