"""oneDNN's verbose output as spans: lines it wrote, and PyTorch's own in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.level import Level
from services.agent.collectors import CollectorRequest, onednn
from services.agent.collectors.errors import CollectorUnavailable
from services.agent.predictors import Opened

LINE = (
    "onednn_verbose,v1,1795267600265.137939,primitive,exec,cpu,convolution,jit:avx512_core,"
    "forward_training,src:f32:a:blocked:aBcd16b::f0 wei:f32:a:blocked:ABcd16b16a::f0,"
    "attr-scratchpad:user,alg:convolution_direct,mb2_ic16oc64_ih64oh62kh3sh1dh0ph0,10.5"
)
OFFSET_NS = 1_795_000_000_000_000_000

PROGRAM = """
import json, sys
import torch
from pathlib import Path
from mlscope.tracing.clock import now_ns
from schemas.level import Level
from services.agent.collectors import CollectorRequest, onednn
from services.agent.predictors import Opened
module = torch.nn.Conv2d(16, 64, 3).eval()
images = torch.zeros(2, 16, 64, 64)
opened = Opened("pytorch", torch.__version__, (), (), "cpu", "", "float32", 1, {})
with torch.no_grad():
    module(images)
    request = CollectorRequest(opened, Level.LIBRARY, {}, Path(sys.argv[1]))
    collector = onednn.open_collector(request)
    blocks = []
    for _ in range(2):
        collector.begin()
        began = now_ns()
        module(images)
        print("said by the model")
        ended = now_ns()
        found = collector.end()
        spans = [(s.name, s.start_ns - began, s.start_ns + s.duration_ns - ended, s.attributes)
                 for s in found.spans]
        blocks.append((found.dropped, spans))
    module(images)
    collector.close()
print(json.dumps(blocks))
"""


def test_a_line_is_a_span() -> None:
    span = onednn.span_of(LINE, OFFSET_NS)
    assert span is not None
    assert (span.level, span.name) == (Level.LIBRARY, "onednn.convolution")
    assert abs(span.start_ns - 267_600_265_137_939) < 1_000  # a double of epoch milliseconds
    assert span.duration_ns == 10_500_000
    assert span.attributes is not None
    assert span.attributes["implementation"] == "jit:avx512_core"
    assert span.attributes["problem"].startswith("mb2_ic16oc64")


@pytest.mark.parametrize(
    "line", [LINE.replace("1795267600265.137939,", ""), LINE[:-4], "onednn_verbose,v1,info,cpu"]
)
def test_a_line_without_time_is_none(line: str) -> None:
    assert onednn.span_of(line, OFFSET_NS) is None


def test_what_has_no_onednn_to_be_seen_says_so() -> None:
    opened = Opened("litert", "2", (), (), "cpu", "", "float32", 1, {})
    with pytest.raises(CollectorUnavailable, match="can't be traced in litert"):
        onednn.open_collector(CollectorRequest(opened, Level.LIBRARY))


def test_primitives_of_pytorch_lie_in_their_block(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    environment = {**os.environ, "ONEDNN_VERBOSE_TIMESTAMP": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True, text=True, timeout=120, check=True, env=environment,
    )  # fmt: skip
    *said, last = ended.stdout.splitlines()
    assert said == ["said by the model"] * 2
    for dropped, spans in json.loads(last):
        assert dropped == 0
        names = [name for name, *_ in spans]
        if not names:
            pytest.skip("this build of PyTorch does not convolve by oneDNN")
        assert "onednn.convolution" in names
        # Both clocks are read within a microsecond; a stamp is of when its primitive began.
        assert all(after > -50_000 and before < 50_000 for _, after, before, _ in spans)
