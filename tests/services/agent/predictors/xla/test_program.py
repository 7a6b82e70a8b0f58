"""An XLA program's text: what its instructions are."""

import json
from typing import Any

from services.agent.predictors.xla.layers import InstructionRun, layers_by_call
from services.agent.predictors.xla.program import Program, program_of

TEXT = """HloModule jit_f, is_scheduled=true

%fused_computation (p0: f32[64,512], p1: f32[512,256]) -> f32[64,256] {
  %p0 = f32[64,512]{1,0} parameter(0)
  %p1 = f32[512,256]{1,0} parameter(1)
  %dot.1 = f32[64,256]{1,0} dot(%p0, %p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/layer1/dot_general" stack_frame_id=3}
  ROOT %tanh.0 = f32[64,256]{1,0} tanh(%dot.1), metadata={op_name="jit(f)/layer1/tanh" stack_frame_id=4}
}

%body (b: f32[64,256]) -> f32[64,256] {
  %b = f32[64,256]{1,0} parameter(0)
  ROOT %neg.9 = f32[64,256]{1,0} negate(%b), metadata={op_name="jit(f)/while/body/neg"}
}

ENTRY %main.7 (x: f32[64,512], w: f32[512,256], k: f32[3,3,4,8], i: f32[1,9,9,4]) -> f32[64,256] {
  %x = f32[64,512]{1,0} parameter(0)
  %w = f32[512,256]{1,0} parameter(1)
  %k = f32[3,3,4,8]{3,2,1,0} parameter(2)
  %i = f32[1,9,9,4]{3,2,1,0} parameter(3)
  %fusion = f32[64,256]{1,0} fusion(%x, %w), kind=kLoop, calls=%fused_computation
  %while.2 = f32[64,256]{1,0} while(%fusion), condition=%cond, body=%body
  %convolution.3 = f32[1,9,9,8]{3,2,1,0} convolution(%i, %k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, metadata={op_name="a;StatefulPartitionedCall/net/conv/Conv2D"}
  ROOT %custom.4 = (f32[64,256]{1,0}, s8[16]{0}) custom-call(%while.2), custom_call_target="__mystery"
}
"""  # noqa: E501

LIBRARIES = """HloModule jit_f, is_scheduled=true

ENTRY %main.9 (a: f32[4,32,32,3], k: f32[32,3,3,3], g: f32[4,4,5,5], h: f32[8,2,3,3], x: f32[8,512], w: f32[10,512]) -> f32[8,10] {
  %a = f32[4,32,32,3]{3,2,1,0} parameter(0)
  %k = f32[32,3,3,3]{3,2,1,0} parameter(1)
  %g = f32[4,4,5,5]{3,2,1,0} parameter(2)
  %h = f32[8,2,3,3]{3,2,1,0} parameter(3)
  %x = f32[8,512]{1,0} parameter(4)
  %w = f32[10,512]{1,0} parameter(5)
  %conv.1 = (f32[4,32,32,32]{3,2,1,0}, u8[4096]{0}) custom-call(%a, %k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_o01i->b01f, custom_call_target="__cudnn$convBiasActivationForward", backend_config={"cudnn_conv_backend_config":{"activation_mode":"kRelu"}}
  %grouped.2 = (f32[4,8,5,5]{3,2,1,0}, u8[0]{0}) custom-call(%g, %h), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01, feature_group_count=2, custom_call_target="__cudnn$convForward"
  ROOT %gemm.3 = (f32[8,10]{1,0}, s8[4194304]{0}) custom-call(%x, %w), custom_call_target="__cublas$gemm", backend_config={"operation_queue_id":"0","gemm_backend_config":{"alpha_real":1,"beta":0,"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["1"],"lhs_batch_dimensions":[],"rhs_batch_dimensions":[]}}}
}
"""  # noqa: E501


def described(program: Program, name: str) -> Any:
    found, attributes = program.row(name, 0)
    return found, json.loads(attributes)


def test_a_fusion_is_named_by_its_root_and_counts_what_was_fused() -> None:
    name, told = described(program_of(TEXT, "XLA cpu"), "fusion")
    assert (name, told["type"]) == ("layer1/tanh", "dot fusion")
    assert told["original"] == ["layer1/dot_general", "layer1/tanh"]
    assert told["flops"] == 2 * 64 * 256 * 512 + 4 * 64 * 256
    assert told["input_shapes"] == [[64, 512], [512, 256]]
    assert (told["bytes_read"], told["bytes_written"]) == (4 * (64 + 256) * 512, 4 * 64 * 256)


def test_a_names_quotes_are_as_its_author_wrote_them() -> None:
    line = r"""  ROOT %copy.1 = f32[4]{0} copy(%p), metadata={op_name="p[\'a\"b\']"}"""
    text = f"ENTRY %main (p: f32[4]) -> f32[4] {{\n  %p = f32[4]{{0}} parameter(0)\n{line}\n}}\n"
    name, told = described(program_of(text, ""), "copy.1")
    assert name == """p['a"b']"""
    assert told["original"] == [name]


def test_a_convolution_sums_its_kernel_for_one_output() -> None:
    name, told = described(program_of(TEXT, ""), "convolution.3")
    assert name == "net/conv/Conv2D"
    assert told["flops"] == 2 * (9 * 9 * 8) * (3 * 3 * 4)


def test_a_library_s_call_has_unknown_flops_and_several_results() -> None:
    name, told = described(program_of(TEXT, ""), "custom.4")
    assert name == "custom.4"
    assert "flops" not in told
    assert told["shape"] == [[64, 256], [16]]
    assert told["bytes_written"] == 4 * 64 * 256
    assert told["memory_bytes"] == 4 * 64 * 256 + 16


TAKEN = """HloModule jit_g, is_scheduled=true

%fused_rows (p0: f32[1000,16], p1: s32[10,1], p2: f32[8,4]) -> f32[10,16] {
  %p0 = f32[1000,16]{1,0} parameter(0)
  %p1 = s32[10,1]{1,0} parameter(1)
  %p2 = f32[8,4]{1,0} parameter(2)
  %flat = f32[16000]{0} bitcast(%p0)
  %row = f32[16]{0} dynamic-slice(%flat, %p1), dynamic_slice_sizes={16}
  %some = f32[2,4]{1,0} slice(%p2), slice={[0:2], [0:4]}
  %all = f32[8,4]{1,0} negate(%p2)
  ROOT %rows = f32[10,16]{1,0} gather(%p0, %p1), offset_dims={1}, slice_sizes={1,16}
}

ENTRY %main.3 (table: f32[1000,16], at: s32[10,1], w: f32[8,4]) -> f32[10,16] {
  %table = f32[1000,16]{1,0} parameter(0)
  %at = s32[10,1]{1,0} parameter(1)
  %w = f32[8,4]{1,0} parameter(2)
  %gather.1 = f32[10,16]{1,0} gather(%table, %at), offset_dims={1}, slice_sizes={1,16}
  ROOT %fusion.2 = f32[10,16]{1,0} fusion(%table, %at, %w), kind=kLoop, calls=%fused_rows
}
"""


def test_a_table_is_read_by_its_rows_in_a_fusion_and_alone() -> None:
    program = program_of(TAKEN, "")
    told = {name: described(program, name)[1]["bytes_read"] for name in ("gather.1", "fusion.2")}
    rows, indices = 4 * 10 * 16, 4 * 10
    assert told["gather.1"] == rows + indices
    # Ten rows and a slice of one of the table, and all of what something else reads too.
    assert told["fusion.2"] == (rows + 4 * 16) + indices + 4 * 8 * 4


TRANSPOSED = """HloModule jit_t, is_scheduled=true

ENTRY %main.3 (x: f32[1,6,6,4], k: f32[3,3,4,8], y: f32[2,16,6,6], l: f32[16,4,3,3]) -> f32[1,12,12,8] {
  %x = f32[1,6,6,4]{3,2,1,0} parameter(0)
  %k = f32[3,3,4,8]{3,2,1,0} parameter(1)
  %y = f32[2,16,6,6]{3,2,1,0} parameter(2)
  %l = f32[16,4,3,3]{3,2,1,0} parameter(3)
  %library.1 = (f32[2,4,12,12]{3,2,1,0}, u8[0]{0}) custom-call(%y, %l), window={size=3x3 pad=0_1x0_1 stride=2x2}, dim_labels=bf01_oi01->bf01, custom_call_target="__cudnn$convBackwardInput"
  ROOT %own.2 = f32[1,12,12,8]{3,2,1,0} convolution(%x, %k), window={size=3x3 pad=2_1x2_1 lhs_dilate=2x2}, dim_labels=b01f_01io->b01f
}
"""  # noqa: E501


def test_a_transposed_convolution_sums_the_kernel_for_each_of_its_inputs() -> None:
    program = program_of(TRANSPOSED, "")
    told = {name: described(program, name)[1]["flops"] for name in ("library.1", "own.2")}
    assert told == {
        "library.1": 2 * (2 * 16 * 6 * 6) * (4 * 3 * 3),
        "own.2": 2 * (6 * 6 * 4) * (8 * 3 * 3),
    }


def test_products_of_cudnn_and_cublas_count_what_their_labels_say() -> None:
    program = program_of(LIBRARIES, "XLA NVIDIA H200")
    told = {name: described(program, name)[1] for name in ("conv.1", "grouped.2", "gemm.3")}
    assert told["conv.1"]["flops"] == 2 * (4 * 32 * 32 * 32) * (3 * 3 * 3)
    assert told["conv.1"]["bytes_written"] == 4 * (4 * 32 * 32 * 32)
    assert told["grouped.2"]["flops"] == 2 * (4 * 8 * 5 * 5) * (2 * 3 * 3)
    assert told["gemm.3"]["flops"] == 2 * (8 * 10) * 512


def test_an_instruction_that_is_not_in_the_text_is_still_a_layer() -> None:
    name, told = described(program_of("", "XLA"), "copy.12")
    assert (name, told["type"], told["provider"]) == ("copy.12", "copy", "XLA")


def test_a_loop_is_shown_by_what_ran_in_it() -> None:
    program = program_of(TEXT, "")
    ran = [
        InstructionRun("fusion", 100, 20, 1),
        InstructionRun("while.2", 130, 50, 1),
        InstructionRun("neg.9", 132, 10, 1),
        InstructionRun("neg.9", 145, 10, 1),
        InstructionRun("custom.4", 185, 40, 1),
        InstructionRun("copy.1", 190, 5, 1),
        InstructionRun("fusion", 900, 20, 1),
    ]
    (call, other) = layers_by_call(ran, [(90, 210), (300, 400)], program)
    assert [(each.name, each.start_ns, each.duration_ns) for each in call] == [
        ("layer1/tanh", 100, 20),
        ("while/body/neg", 132, 10),
        ("while/body/neg", 145, 10),
        ("custom.4", 185, 25),
    ]
    assert [json.loads(each.attributes)["index"] for each in call] == [0, 1, 2, 3]
    assert other == []
