"""The parts of the table: the cases, preparation on the host and on the GPU, and peers."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from benchmarks import feeding_gpu
from benchmarks.decoded_on_gpu import rates
from benchmarks.fed_gpu import peers
from benchmarks.feeding_cases import CASES, TRIAL_CASES, Case, Effort
from benchmarks.feeding_model import per_core
from benchmarks.preparation import rates_of, shipped_photographs

Figures = dict[str, Any]
PREPARATION, DECODING, PEERS = "preparation", "decoding", "peers"
PROCESSES = 13
"""Of the wanted rates on 16 cores; on fewer cores as many fewer."""
CORES = 16
PER_CORE_ROUNDS = 15
DECODED = "resnet50 bfloat16 256"
PLACES = ("host", "device")


def parts(effort: Effort) -> dict[str, Callable[[], Figures]]:
    """Return what measures each part of the table, by its name, in order."""
    cases = TRIAL_CASES if effort.device == "cpu" else CASES
    by_name = {case.name: case for case in CASES} | {case.name: case for case in cases}
    fed = by_name[DECODED] if effort.device == "gpu" else cases[0]
    return {
        PREPARATION: partial(preparation, effort),
        DECODING: partial(decoding, fed, effort),
        PEERS: partial(peers.measure, fed, effort),
        **{case.name: partial(feeding_gpu.measure, case, effort) for case in cases},
    }


def preparation(effort: Effort) -> Figures:
    """Return what preparing processes reach, and one core's rate over the libraries' calls'."""
    processes = max(1, (os.cpu_count() or 1) - CORES + PROCESSES)
    alone, together = rates_of(processes)
    rounds = PER_CORE_ROUNDS if effort.device == "gpu" else 3
    return {
        "processes": processes,
        "photographs": len(shipped_photographs()),
        "alone_per_s": alone,
        "together_per_s": together,
        "over_calls_alone": per_core(rounds),
        "has_native": find_spec("cykooz_resizer") is not None,
    }


def decoding(case: Case, effort: Effort) -> Figures:
    """Return the rates of a case whose pictures the host's processes or the GPU decode."""
    places = PLACES if effort.device == "gpu" else PLACES[:1]
    rows: dict[str, list[Mapping[str, float]]] = {place: [] for place in places}
    notes: list[str] = []
    for place in places * 2:
        prepared, ahead, streamed, session_notes = rates(case, place, effort)
        rows[place].append(
            MappingProxyType({"prepared": prepared, "ahead": ahead, "streamed": streamed})
        )
        notes += [note for note in session_notes if note not in notes]
    return {
        "case": case.name,
        "per_s": {place: [dict(row) for row in turns] for place, turns in rows.items()},
        "notes": notes,
    }
