"""A GPU's roof, with libraries made up: what is measured, for how long, and what is said of it."""

from collections.abc import Callable, Sequence

import pytest

from services.agent.machine.roofline import gpu_roof
from services.agent.machine.roofline.gpu_arithmetic import CudaCopy, TimedWork
from services.agent.machine.roofline.gpu_roof import measure_gpu

RATES = {"float64": 1e12, "float32": 1e13, "tf32": 4e14, "float16": 8e14, "bfloat16": 8e14}
RATES["int8"] = 16e14


class Simulated:
    """A GPU that takes the time its rates tell; a first call takes ten times as long."""

    library = "Simulated 1.0"
    device = "NVIDIA H200"
    capability = (9, 0)
    precisions: Sequence[str] = tuple(RATES)

    def __init__(self, number: int) -> None:
        self.number, self.free = number, 64 << 30
        self.spent_s: dict[str, float] = dict.fromkeys(RATES, 0.0)

    def free_bytes(self) -> int:
        """Return what is free."""
        return self.free

    def product(self, precision: str, size: int) -> TimedWork:
        """Return what takes as long as a product."""
        return self._act(precision, 2.0 * size**3 / RATES[precision])

    def copy(self, count: int) -> TimedWork:
        """Return what takes as long as a copy."""
        return self._act("copy", 2.0 * count / 4e12)

    def _act(self, name: str, one_s: float) -> TimedWork:
        is_first = True

        def act(times: int) -> float:
            nonlocal is_first
            taken, is_first = one_s * times * (10 if is_first else 1), False
            self.spent_s[name] = self.spent_s.get(name, 0.0) + taken
            return taken

        return act


class Turing(Simulated):
    """Of a time before tf32 and bfloat16."""

    capability = (7, 5)


class Full(Simulated):
    """Without memory, and without a kernel for int8."""

    def free_bytes(self) -> int:
        """Return what is free."""
        return 32 << 20

    def product(self, precision: str, size: int) -> TimedWork:
        """Refuse int8."""
        if precision == "int8":
            raise NotImplementedError("_int_mm\nlong story")
        return super().product(precision, size)


def refusing(error: Exception) -> Callable[[int], Simulated]:
    def open_nothing(number: int) -> Simulated:
        raise error

    return open_nothing


def test_each_precision_and_the_copy_are_measured() -> None:
    found = measure_gpu(0, [Simulated])
    assert {name: each[0].measured for name, each in found.peaks.items()} == pytest.approx(RATES)
    assert found.bandwidths[0].measured == pytest.approx(4e12)
    assert (found.kind, found.device, found.missing) == ("gpu", "NVIDIA H200", {})
    assert found.peaks["bfloat16"][0].method == (
        "bfloat16 products of 8192 x 8192, Simulated 1.0, best of 5"
    )


def test_a_slow_gpu_multiplies_smaller_matrices_for_no_longer() -> None:
    made: list[Simulated] = []

    def opened(number: int) -> Simulated:
        made.append(Simulated(number))
        return made[-1]

    found = measure_gpu(0, [opened])
    assert "2048 x 2048" in found.peaks["float64"][0].method
    assert all(spent < 1.5 for spent in made[0].spent_s.values())


def test_what_a_gpu_has_not_is_not_measured() -> None:
    found = measure_gpu(0, [Turing])
    assert set(found.peaks) == {"float64", "float32", "float16", "int8"}
    assert found.missing["tf32"] == "compute capability 7.5 has none"


def test_what_cannot_be_measured_says_why_and_the_rest_is() -> None:
    found = measure_gpu(0, [Full])
    assert found.missing == {"int8": "_int_mm", "copy": f"{32 << 20} bytes of its memory are free"}
    assert "1024 x 1024" in found.peaks["float32"][0].method
    assert found.bandwidths == {}


def test_the_next_library_is_asked_where_one_sees_no_gpu() -> None:
    found = measure_gpu(3, [refusing(ImportError("No module named 'torch'")), Simulated])
    assert found.device == "NVIDIA H200"


def test_without_any_library_there_is_a_note() -> None:
    found = measure_gpu(0, [refusing(ImportError("no torch")), refusing(RuntimeError("no GPU"))])
    assert (found.kind, found.peaks) == ("", {})
    assert found.note == (
        "no roof of the GPU was measured: open_nothing: no torch; open_nothing: no GPU"
    )


def test_libraries_are_asked_in_order_and_the_driver_for_copies_alone() -> None:
    names = [each.__name__ for each in gpu_roof.LIBRARIES]
    assert names == ["WithTorch", "WithJax", "CudaCopy"]
    assert CudaCopy.precisions == ()
