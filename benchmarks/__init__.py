"""Each performance claim as a command that runs us and the peer or floor in one go.

`python -m benchmarks` runs all of them; `python -m benchmarks.NAME` one.
"""

import os

# As in workers: else ONNX Runtime has threads of its own beside what is measured.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
