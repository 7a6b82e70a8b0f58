"""An evaluation's fields, as `mlscope show` prints them."""

from cli.printing.evaluation import field_lines


def test_a_long_value_continues_below_its_beginning() -> None:
    result = "online at batch 1 trimmed mean 263 ms (209 … 308), 90th percentile 494 ms"
    assert field_lines("result", result, 60) == [
        "result       online at batch 1 trimmed mean 263 ms (209 …",
        "             308), 90th percentile 494 ms",
    ]
    assert field_lines("result", result) == [f"result       {result}"]
