"""Memory: the most that was seen; what is unknown is not 0."""

from typing import Any

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
    assert table.verdict == "The memory of no run is known."


def test_layers_are_summed_and_the_largest_is_named() -> None:
    device_attributes = [
        [0, "a", "T", "", "", None, 40],
        [1, "b", "T", "", "", None, 60],
        [2, "c", "T"],
    ]
    run = layer_run((0, "a", 1), (1, "b", 1), (2, "c", 1), layers=device_attributes)
    (row,) = rows_of(table_of(ANALYSIS, run))
    assert (row["layers_bytes"], row["layers"], row["largest"]) == (100, 2, "b")


def test_a_special_runs_memory_is_the_verdict_only_where_there_is_no_other() -> None:
    def of(run: str, rss: int, variant: str = "") -> dict[str, Any]:
        return model_run(run=run, session=run, variant=variant, conditions={"rss_bytes": rss})

    special = [of("replay", 9, "counters"), of("opening", 7, "cold")]
    assert (
        table_of(ANALYSIS, *special, of("plain", 5)).verdict
        == "plain took the most: its process 5 B."
    )
    assert table_of(ANALYSIS, *special).verdict.startswith("opening took the most")
    assert table_of(ANALYSIS, special[0]).verdict.startswith("replay took the most")


def test_what_a_framework_holds_is_not_what_is_used_on_the_board() -> None:
    told = {"rss_bytes": 3, "device_memory_bytes": 4}
    series = [["nvml.memory_used", 1, 0, 0, 6000.0, "By"]]
    table = table_of(ANALYSIS, model_run(device="gpu", conditions=told, series=series))
    (row,) = rows_of(table)
    assert (row["device_bytes"], row["board_bytes"]) == (4, 6000)
    assert table.verdict.endswith("its process 3 B, on its device 4 B, in total on its board 6 kB.")


def test_another_devices_memory_is_not_the_runs() -> None:
    told = [["nvml.memory_used", 1, 0, n, float(by), "By"] for n, by in enumerate((5, 9))]
    used = []
    for device in ("gpu", "cuda:1", "cpu"):
        (row,) = rows_of(table_of(ANALYSIS, model_run(device=device, series=told, conditions={})))
        used.append(row["board_bytes"])
        assert row["device_bytes"] is None
    assert used == [5, 9, None]
