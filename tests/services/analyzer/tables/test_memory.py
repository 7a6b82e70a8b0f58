"""Memory: the most that was seen; what is unknown is not 0."""

from services.analyzer.tables.memory import ANALYSIS
from tests.services.analyzer.tables.reading import rows_of, table_of
from tests.services.analyzer.tables.traced import layer_run, model_run


def test_samples_go_before_what_the_worker_noted() -> None:
    series = [["resource.rss", n, 0, None, float(by), "By"] for n, by in enumerate((5, 9, 7))]
    (row,) = rows_of(table_of(ANALYSIS, model_run(conditions={"rss_bytes": 3}, series=series)))
    assert row["process_bytes"] == 9
    (row,) = rows_of(table_of(ANALYSIS, model_run(conditions={"rss_bytes": 3})))
    assert row["process_bytes"] == 3


def test_a_zero_that_means_unknown_is_null() -> None:
    told = {"memory_bytes": 0, "device_memory_bytes": 0, "rss_bytes": 0}
    table = table_of(ANALYSIS, model_run(conditions=told))
    (row,) = rows_of(table)
    assert [row[n] for n in ("model_bytes", "device_bytes", "process_bytes")] == [None] * 3
    assert table.verdict == "No run says how much memory it took."


def test_layers_are_summed_and_the_largest_is_named() -> None:
    natures = [[0, "a", "T", "", "", None, 40], [1, "b", "T", "", "", None, 60], [2, "c", "T"]]
    run = layer_run((0, "a", 1), (1, "b", 1), (2, "c", 1), layers=natures)
    (row,) = rows_of(table_of(ANALYSIS, run))
    assert (row["layers_bytes"], row["layers"], row["largest"]) == (100, 2, "b")


def test_another_devices_memory_is_not_the_runs() -> None:
    told = [["nvml.memory_used", 1, 0, n, float(by), "By"] for n, by in enumerate((5, 9))]
    used = []
    for device in ("gpu", "cuda:1", "cpu"):
        (row,) = rows_of(table_of(ANALYSIS, model_run(device=device, series=told, conditions={})))
        used.append(row["device_bytes"])
    assert used == [5, 9, None]
