"""The file of results: a line for each trial, from which a later call goes on (I/O)."""

import json
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.faults.performing import Result


def append(file: Path, result: Result) -> None:
    """Add a trial's line; one that is cut short by a kill is passed over when it is read."""
    trial = result.trial
    line = {
        "seed": trial.seed,
        "kind": trial.kind,
        "trial": str(trial),
        "wrong": result.wrong,
        "proof": result.proof,
        "said": result.said,
        "attempts": result.attempts,
        "took_s": round(result.took_s, 2),
    }
    with file.open("a", encoding="utf-8") as output:
        output.write(json.dumps(line) + "\n")


def read(file: Path) -> dict[int, dict[str, Any]]:
    """Return the newest line of each trial, by its seed."""
    lines: dict[int, dict[str, Any]] = {}
    for text in file.read_text("utf-8").splitlines() if file.exists() else ():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        lines[line["seed"]] = line
    return lines


def to_do(seeds: Iterable[int], lines: dict[int, dict[str, Any]]) -> list[int]:
    """Return the seeds whose trial was not performed, or not with success."""
    return [seed for seed in seeds if seed not in lines or lines[seed]["wrong"]]


def summary(lines: Iterable[dict[str, Any]]) -> str:
    """Return a table: of each kind how many trials there were, how many failed, how long."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        kinds.setdefault(line["kind"], []).append(line)
    rows = [f"{'kind':24} {'trials':>6} {'failed':>6} {'repeated':>8} {'median s':>8}"]
    for kind, of_kind in sorted(kinds.items()):
        failed = sum(bool(line["wrong"]) for line in of_kind)
        repeated = sum(line["attempts"] > 1 for line in of_kind)
        median_s = statistics.median(line["took_s"] for line in of_kind)
        rows.append(f"{kind:24} {len(of_kind):6} {failed:6} {repeated:8} {median_s:8.1f}")
    return "\n".join(rows)
