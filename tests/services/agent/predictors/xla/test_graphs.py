"""Layers of the kernels of a command buffer: by name and order."""

import pytest

from services.agent.predictors.xla.graphs import Graphable, layers_by_order
from services.agent.predictors.xla.layers import InstructionRun, with_graphed
from services.agent.predictors.xla.program import program_of

# Of JAX 0.11 on an H200, shortened: what is behind the convolution becomes a graph.
TEXT = """\
HloModule jit_f, is_scheduled=true

ENTRY %main.6 (x.1: f32[8,64]) -> f32[8,64] {
  %x.1 = f32[8,64]{1,0} parameter(0), metadata={op_name="x"}
  %transpose.1 = f32[8,64]{1,0} fusion(%x.1), metadata={op_name="jit(f)/conv/transpose"}
  %conv.1 = f32[8,64]{1,0} custom-call(%transpose.1), metadata={op_name="jit(f)/conv/conv"}
  %reduce_fusion = f32[8,64]{1,0} fusion(%conv.1), metadata={op_name="jit(f)/pool/reduce_sum"}
  %gemm.4 = f32[8,64]{1,0} fusion(%reduce_fusion), metadata={op_name="jit(f)/dense1/dot"}
  %gemm.5 = f32[8,64]{1,0} fusion(%gemm.4), metadata={op_name="jit(f)/dense2/dot"}
  ROOT %softmax.2 = f32[8,64]{1,0} fusion(%gemm.5), metadata={op_name="jit(f)/head/div"}
}
"""
SCHEDULE = ["transpose.1", "conv.1", "reduce_fusion", "gemm.4", "gemm.5", "softmax.2"]


def graphable() -> list[Graphable]:
    return program_of(TEXT, "XLA").graphable()


def test_what_starts_kernels_is_in_the_order_of_the_schedule() -> None:
    found = graphable()
    assert [each.instruction for each in found] == SCHEDULE
    assert [each.layer for each in found][2:4] == ["pool/reduce_sum", "dense1/dot"]
    assert found[3].kernel == "gemm_4"
    assert program_of("", "XLA").graphable() == []


@pytest.mark.parametrize(
    ("kernels", "layers"),
    [
        # One kernel made once is run for two instructions.
        (
            ["reduce_fusion", "gemm_4", "gemm_4", "softmax_2"],
            ["pool/reduce_sum", "dense1/dot", "dense2/dot", "head/div"],
        ),
        # Two of a library's for the one instruction between those that match.
        (
            ["transpose_1", "sm90_a", "sm90_b", "reduce_fusion"],
            ["conv/transpose", "conv/conv", "conv/conv", "pool/reduce_sum"],
        ),
        # As many kernels as instructions are missing: two for three are nobody's.
        (["conv_1", "a", "b", "softmax_2"], ["conv/conv", None, None, "head/div"]),
        (["other"], [None]),
        ([], []),
    ],
)  # fmt: skip
def test_kernels_are_told_by_name_and_order(kernels: list[str], layers: list[str | None]) -> None:
    assert layers_by_order(kernels, graphable()) == layers


def test_instructions_that_no_event_shows_are_in_the_buffer() -> None:
    events = ["transpose.1", "conv.1", "command_buffer.1"]
    ran = [InstructionRun(name, 10 * place, 8, 1) for place, name in enumerate(events * 2)]
    found = with_graphed(ran, program_of(TEXT, "XLA"))
    assert [each.instruction for each in found] == [*events, *SCHEDULE[2:]] * 2
    inside = [each for each in found if each.instruction == "gemm.5"]
    assert [(each.start_ns, each.duration_ns) for each in inside] == [(28, 0), (58, 0)]


def test_without_a_buffer_nothing_is_added() -> None:
    ran = [InstructionRun("transpose.1", 0, 8, 1)]
    assert with_graphed(ran, program_of(TEXT, "XLA")) == ran
