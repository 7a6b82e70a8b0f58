"""The analyses, one a file: pure functions from frames to tables, and the list of them.

Each names its formula's source and describes its columns with units. To add one: a file with its
function and its `ANALYSIS`, two lines in the file of its family (`families/`), an import and a
place in `ANALYSES`, and its question on the pages (`services/gateway/pages/subjects.py`).
"""

from services.analyzer.building.table import Analysis
from services.analyzer.tables.families import answers, devices, kernels, layers, runs

ANALYSES: tuple[Analysis, ...] = (
    *runs.ANALYSES,
    *layers.ANALYSES,
    *kernels.ANALYSES,
    *devices.ANALYSES,
    *answers.ANALYSES,
)
"""Every table, in the order of a report: runs and their queries; then layers, kernels, and both
together; the device, memory and energy; answers, failures and attempts. A1 to A15 are in order."""
