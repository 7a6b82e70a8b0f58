"""What two logs are said to differ in."""

from mlscope.reproducing.difference import Difference
from mlscope.reproducing.differences import differences
from schemas.agent import Accelerator
from tests.mlscope.reproducing.reference_logs import a_log, an_announcement


def of(found: list[Difference], aspect: str) -> list[tuple[str, str, str]]:
    return [(each.name, each.before, each.now) for each in found if each.aspect == aspect]


def test_the_same_again_differs_in_nothing_but_what_is_compared_anyway() -> None:
    found = differences(a_log(), a_log(median=105.0))
    assert {each.aspect for each in found} == {"performance", "accuracy", "predictions"}
    (accuracy,) = [each for each in found if each.aspect == "accuracy"]
    assert (accuracy.name, accuracy.now, accuracy.is_same) == ("top-1", "0.98, 441 of 450", True)
    (answers,) = [each for each in found if each.aspect == "predictions"]
    assert (answers.note, answers.is_same) == ("identical, 2 samples", True)
    median = next(each for each in found if each.name == "latency median")
    assert median.note == "ratio 1.050, the intervals overlap"
    assert median.before == "100 [90, 110]"


def test_people_get_figures_with_their_units() -> None:
    found = differences(a_log(median=194_012_345.0), a_log(median=1.2e9))
    told = {each.name: each.with_units for each in found}
    assert told["latency median"] == ("194 ms [175 ms, 213 ms]", "1.2 s [1.08 s, 1.32 s]")
    assert told["throughput samples_per_s"] == ("5.15 /s", "0.833 /s")
    assert (told["top-1"], told["answers"]) == (None, None)
    median = next(each for each in found if each.name == "latency median")
    assert median.before == "1.94012e+08 [1.74611e+08, 2.13414e+08]"


def test_another_machine_and_version_are_said() -> None:
    gpu = (Accelerator(name="H200"),)
    now = a_log(
        known=an_announcement("a2", cores=8, accelerators=gpu, version="1.32.0"),
        threads=8,
        python_version="3.12",
        median=50.0,
    )
    found = differences(a_log(), now)
    hardware = {("cpu.cores", "2", "8"), ("accelerators.0.name", "", "H200")}
    assert hardware <= set(of(found, "hardware"))
    assert of(found, "software") == [("packages.onnxruntime", "1.31.1", "1.32.0")]
    assert ("threads", "1", "8") in of(found, "conditions")
    median = next(each for each in found if each.name == "latency median")
    assert (median.note, median.is_same) == ("ratio 0.500, the intervals do not overlap", False)


def test_another_accuracy_is_said() -> None:
    found = differences(a_log(), a_log(hits=440))
    (accuracy,) = [each for each in found if each.aspect == "accuracy"]
    assert (accuracy.before, accuracy.now) == ("0.98, 441 of 450", "0.977778, 440 of 450")
    assert (accuracy.note, accuracy.is_same) == ("differs", False)


def test_a_run_that_is_missing_is_said() -> None:
    now = a_log().model_copy(update={"runs": ()})
    assert of(differences(a_log(), now), "runs") == [("paired", "1", "0")]


def test_another_number_of_machines_is_said() -> None:
    log = a_log()
    fewer = log.model_copy(update={"machines": ()})
    assert of(differences(log, fewer), "hardware") == [
        ("machines", "1", "0"),
        ("machine", "a1", "none"),
    ]
    assert ("machine", "none", "a1") in of(differences(fewer, log), "hardware")
