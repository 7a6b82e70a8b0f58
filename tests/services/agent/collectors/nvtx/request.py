"""What a worker asks of the collector."""

from schemas.level import Level
from services.agent.collectors import CollectorRequest
from services.agent.predictors import Opened

_OPENED = Opened("onnxruntime", "1", (), (), "cpu", "", "float32", 1, {})
REQUEST = CollectorRequest(_OPENED, Level.APPLICATION)
