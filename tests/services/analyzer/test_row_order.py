"""The order of rows never varies, so that equal rows have tables with equal digests.

A sum of floats depends on its order in the last digits.
"""

import ast
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import services.analyzer
from services.analyzer.tables.preparation import preparation
from tests.services.analyzer.golden import frames_in

SOURCES = sorted(Path(services.analyzer.__file__).parent.rglob("*.py"))


def streamed(batches: int) -> dict[str, Any]:
    """Return a golden input of batches of seven, each with two steps of random durations."""
    dice = random.Random(1)
    queries, spans = [], []
    for query in range(batches):
        start_ns, decode_ns, resize_ns = query * 10**6, *(dice.randrange(1, 10**5) for _ in "ab")
        queries.append([query, 0, 7, None, start_ns, start_ns, start_ns + 10**6, 10**6, 0])
        steps = ("decode", 0, decode_ns), ("resize", 10**5, resize_ns), ("predict", 2 * 10**5, 10)
        root = 4 * query
        spans.append([root, None, 1, "query", start_ns, 10**6, 0, query, 0])
        spans += [
            [root + number, root, 2, name, start_ns + after_ns, duration_ns, 0, query, 0]
            for number, (name, after_ns, duration_ns) in enumerate(steps, start=1)
        ]
    run = {"run": "r0", "level": 2, "batch_size": 7, "conditions": {"samples": "streamed"}}
    return {"runs": [run | {"queries": queries, "spans": spans}]}


def test_a_table_is_the_same_each_time() -> None:
    value = streamed(300)
    tables = [preparation(frames_in(value)) for _ in range(8)]
    assert tables[0].rows[0][-1] == 1.0
    assert all(table == tables[0] for table in tables)


def calls_without_order(source: str) -> Iterator[int]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "group_by":
            keywords = {keyword.arg for keyword in node.keywords}
            if "maintain_order" not in keywords:
                yield node.lineno


def test_groups_keep_the_order_of_their_rows() -> None:
    lines = {path.name: [*calls_without_order(path.read_text())] for path in SOURCES}
    assert {name for name, numbers in lines.items() if numbers} == set()
