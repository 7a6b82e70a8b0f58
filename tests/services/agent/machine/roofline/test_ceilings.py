"""A device's roof: what of it bounds a run, by its precision and threads."""

import pytest

from schemas.run import Ceiling
from services.agent.machine.roofline.ceilings import NO_ROOF, Roof, arithmetic_of

COPY = Ceiling(measured=4e12, method="copy")


def gpu(lacking: dict[str, str] | None = None, **peaks: float) -> Roof:
    told = {name: {0: Ceiling(measured=value, method=name)} for name, value in peaks.items()}
    return Roof("gpu", "H200", told, {0: COPY}, lacking or {})


def host(**peaks: float) -> Roof:
    """Return a roof of one precision by threads: `of_2=` is what two reach."""
    known = {
        int(name.removeprefix("of_")): Ceiling(measured=each, method="m")
        for name, each in peaks.items()
    }
    return Roof("cpu", "EPYC", {"float32": known}, known)


@pytest.mark.parametrize(
    ("precision", "names"),
    [
        ("float32", ("float32",)),
        ("float32 (tf32 allowed)", ("tf32",)),
        ("float32 (bfloat16 allowed)", ("bfloat16",)),
        ("float32 (bfloat16 products)", ("bfloat16",)),
        ("int8 (quantized float32)", ("int8",)),
        ("float16+float32", ("float16", "float32")),
        ("unknown", ()),
        ("as built (float32 in)", ()),
        ("", ()),
    ],
)
def test_a_precision_says_what_a_run_may_compute_in(precision: str, names: tuple[str, ...]) -> None:
    assert arithmetic_of(precision) == names


@pytest.mark.parametrize(
    ("precision", "peak"),
    [
        ("float32", 50e12),
        ("float32 (tf32 allowed)", 400e12),
        ("bfloat16", 790e12),
        ("bfloat16+float32", 790e12),
    ],
)
def test_each_precision_has_its_own_peak(precision: str, peak: float) -> None:
    picked = gpu(float32=50e12, tf32=400e12, bfloat16=790e12).for_run(precision, 8)
    assert picked.ceilings["peak_flops"].measured == peak
    assert picked.ceilings["memory_bandwidth"] == COPY
    assert picked.note == ""


def test_allowed_tf32_is_float32_where_there_is_none() -> None:
    picked = gpu(float32=15e12).for_run("float32 (tf32 allowed)", 1)
    assert picked.ceilings["peak_flops"].measured == 15e12


def test_an_unknown_peak_is_not_another_precisions() -> None:
    roof = gpu({"int8": "no such kernel"}, float32=50e12)
    picked = roof.for_run("int8 (quantized float32)", 1)
    assert "peak_flops" not in picked.ceilings
    assert picked.note == "no roof: the peak of int8 is not known here (no such kernel)"
    assert "peak_flops" not in roof.for_run("as built (float32 in)", 1).ceilings


def test_a_host_is_bound_by_the_threads_of_the_run() -> None:
    roof = host(of_1=10.0, of_2=18.0, of_8=60.0)
    told = {n: roof.for_run("float32", n).ceilings["peak_flops"] for n in (1, 2, 4, 8, 64, 0)}
    values = {n: each.measured for n, each in told.items()}
    assert values == {1: 10.0, 2: 18.0, 4: pytest.approx(32.0), 8: 60.0, 64: 60.0, 0: 60.0}
    assert told[4].method == "m; for 4 threads interpolated between 2 and 8"
    assert roof.for_run("float32", 1).ceilings["memory_bandwidth"].measured == 10.0


def test_nothing_known_bounds_nothing() -> None:
    assert NO_ROOF.for_run("float32", 1).ceilings == {}
    failed = Roof("cpu", note="the host's roof could not be measured: no memory")
    assert failed.for_run("float32", 1).note == failed.note


def test_a_roof_measured_beside_others_is_said_to_be_low() -> None:
    known = {1: Ceiling(measured=10.0)}
    disturbance = "other processes used 40% of the cores"
    roof = Roof("cpu", "EPYC", {"float32": known}, known, disturbance=disturbance)
    picked = roof.for_run("float32", 1)
    assert picked.ceilings["peak_flops"].measured == 10.0
    assert picked.note.startswith(
        "other processes used 40% of the cores while its roof was measured"
    )
    assert Roof.from_dict(roof.to_dict()) == roof


def test_without_a_copy_there_is_no_roof() -> None:
    roof = Roof("gpu", "T", {"float32": {0: COPY}}, missing={"copy": "no memory"})
    assert roof.for_run("float32", 1).ceilings == {}
    assert roof.for_run("float32", 1).note == "no roof: no memory"


def test_words_tell_all_of_it() -> None:
    for roof in (gpu({"int8": "none"}, float32=1.0), host(of_1=1.0, of_2=2.0), NO_ROOF):
        assert Roof.from_dict(roof.to_dict()) == roof
