"""Nsight Compute's reports of an H200, read again: ResNet-50 at batch 32, fp32 with TF32."""

from collections import Counter

import pytest

from mlscope.importing.errors import ReportUnreadable
from mlscope.importing.ncu.flops import flops_of
from mlscope.importing.ncu.kernels import spans_of
from mlscope.importing.ncu.metrics import READ_BYTES, metrics_for
from mlscope.importing.ncu.report import CountedKernel, kernels_of, ranges_of, scale_of
from schemas.batch import SpanKind
from services.agent.collectors.ncu.collector import failure_reason
from tests.gpu.recordings import recorded, recorded_text

METRICS = metrics_for("float32")
TENSOR_INSTRUCTIONS = "sm__inst_executed_pipe_tensor.sum"


@pytest.fixture(scope="module")
def kernels() -> list[CountedKernel]:
    return kernels_of(recorded_text("ncu_resnet50_b32.csv").splitlines(True), METRICS)


@pytest.fixture(scope="module")
def flat() -> list[CountedKernel]:
    text = recorded_text("ncu_resnet50_b32_flat.csv")
    return kernels_of(text.splitlines(True), (*METRICS, TENSOR_INSTRUCTIONS))


def test_every_kernel_has_every_metric_and_its_layer(kernels: list[CountedKernel]) -> None:
    assert [each.launch_index for each in kernels] == list(range(239))
    assert all(set(each.counters) == set(METRICS) for each in kernels)
    assert kernels[0].ranges == ("model", "conv1")
    assert kernels[28].layer == "layer1.1.relu"
    assert all(each.layer for each in kernels)


def test_thousands_are_numbers(flat: list[CountedKernel]) -> None:
    assert flat[0].counters[READ_BYTES] == 19_277_824
    assert flat[0].grid == (1568, 1, 32)
    assert flat[0].layer == "conv1"


def test_flops_with_tensor_pipes_are_those_of_the_network(kernels: list[CountedKernel]) -> None:
    flops = [flops_of(each.counters) for each in kernels]
    assert all(each is not None and each.method == "counted" for each in flops)
    # 2 x 4.089 G multiply-adds x 32 pictures, and what tiles pad: 8.4% here
    static = 2 * 4.089e9 * 32
    total = sum(each.value for each in flops if each is not None)
    assert 1.0 < total / static < 1.12


def test_without_them_flops_are_short_and_say_so(kernels: list[CountedKernel]) -> None:
    scalar = {k: v for k, v in kernels[2].counters.items() if "tensor" not in k}
    told = flops_of(scalar)
    assert told is not None
    assert told.method == "counted, without tensor pipes"


def test_instructions_alone_make_an_estimate(flat: list[CountedKernel]) -> None:
    without = {k: v for k, v in flat[2].counters.items() if "ops_path" not in k}
    told = flops_of(without)
    assert told is not None
    # 4,014,080 instructions of m16n8k8 beside 25,690,112 fmul
    assert told.value == 4_014_080 * 2048 + 25_690_112
    assert told.method == "estimated from tensor instructions"
    assert flops_of({READ_BYTES: 1.0}) is None


def test_kernels_are_named_as_kineto_names_them(kernels: list[CountedKernel]) -> None:
    traced = {
        name for name, is_device, *_ in recorded("kineto_resnet50_b1.json")["events"] if is_device
    }
    counted = Counter(span.name for span in spans_of(kernels, 0))
    relu = next(name for name in counted if "launch_clamp_scalar" in name)
    assert relu in traced
    assert "(anonymous namespace)" in relu


def test_spans_keep_the_order_and_carry_what_was_counted(kernels: list[CountedKernel]) -> None:
    spans = list(spans_of(kernels, 1000))
    assert {span.kind for span in spans} == {SpanKind.KERNEL}
    assert spans[0].start_ns == 1000
    assert spans[1].start_ns == 1000 + spans[0].duration_ns
    told = spans[0].attributes or {}
    assert told["dram_read_bytes"] == kernels[0].counters[READ_BYTES]
    assert told["launch_index"] == 0
    assert 0 < told["occupancy"] <= 100


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "holds no table"),
        ("==ERROR== The application returned an error code (1).\n", "holds no table"),
        ('"ID","Kernel Name"\n"",""\n', "has no column Stream"),
        ('"ID","Kernel Name","Stream","Device"\n"","","",""\n"0","k","7"\n', "is cut short"),
    ],
)
def test_a_report_that_is_none_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ReportUnreadable, match=reason):
        kernels_of(text.splitlines(True), METRICS)


def test_a_metric_that_was_not_counted_is_absent() -> None:
    head = '"ID","Kernel Name","Stream","Device","dram__bytes_read.sum"\n"","","","","Kbyte"\n'
    rows = '"0","k","7","0","1,024"\n"1","k","7","0","n/a"\n'
    found = kernels_of((head + rows).splitlines(True), METRICS)
    assert [each.counters for each in found] == [{READ_BYTES: 1_024_000.0}, {}]


def test_ranges_may_hold_colons_and_be_absent() -> None:
    cell = '740 "<default domain>:model:none:none:none:none:none:none" "a:b:c:none:0:none:0:none:x"'
    assert ranges_of(cell) == ("model", "b:c")
    assert ranges_of("") == ()


def test_units() -> None:
    assert [scale_of(u) for u in ("byte", "Kbyte", "Gbyte", "us", "ns", "%")] == [
        1, 1e3, 1e9, 1e3, 1, 1,
    ]  # fmt: skip


def test_what_ncu_complains_of_is_told() -> None:
    denied = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access"
    assert "only root" in failure_reason(denied)
    assert failure_reason("==ERROR== No kernels were profiled.\n") == "No kernels were profiled."
    assert failure_reason("Traceback\nOpenFailed: no model\n").endswith("OpenFailed: no model")


def test_metrics_follow_the_precision_and_what_is_asked() -> None:
    assert "sm__ops_path_tensor_src_tf32_dst_fp32.sum" in metrics_for("float32 (tf32 allowed)")
    half = metrics_for("bfloat16", ["l2__misses.sum", READ_BYTES])
    assert "sm__ops_path_tensor_src_bf16_dst_fp32.sum" in half
    assert half.count(READ_BYTES) == 1
    assert half[-1] == "l2__misses.sum"
