"""Measures how a GPU is fed, a part at a time, and prints all of it as tables.

`python -m benchmarks.fed_gpu OUT [--seconds 500] [--only NAME …] [--commit ID] [--trial]`

OUT has a file for each part; a part that has one is not measured again, so the same command goes on
where it ended, also on another machine that OUT was copied to. After `--seconds` it begins no part.
OUT/tables.md has the tables of what is measured so far; `--tables` writes them without measuring.
`--commit` says of what the code is, where there is no repository. `--trial` measures three small
cases on the CPU: it shows that every part runs.

Parts: `preparation` (preparing processes beside one, and one core beside the libraries' calls),
`decoding` (pictures decoded by the GPU beside processes that decode them), `peers` (PyTorch's
DataLoader and MLPerf's LoadGen with the same model), and the cases of `benchmarks.feeding_cases`.

Wanted: predict within 2 % of bare; throughput ahead 0.98 of two bare calls in flight or more;
predict while streamed within 2 % of predict ahead (kappa); throughput streamed 0.95 of the bound or
more, which is the lower rate of preparation's and the model's. Where the GPU does both, the rate of
one after the other stands beside it. Kappa is measured three ways in the same blocks: with the
thread that predicts kept on one core in both runs, as an agent does; free to move in both; and kept
while streamed but free ahead, as before. Of preparation: a core 0.9 of the libraries' calls alone;
13 processes 2,200 samples a second, 3,500 with fast_image_resize; the GPU 10,000.
"""

import argparse
import json
import platform
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.fed_gpu.parts import parts
from benchmarks.fed_gpu.tables import page
from benchmarks.feeding_cases import FULL, TRIAL
from benchmarks.timing import commit
from services.agent.predictors.options import usable_cores


def main() -> int:
    """Measure the parts that are left until the time is up; return how many are left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--only", nargs="*", default=[], help="parts with one of these in a name")
    parser.add_argument("--commit", default="")
    parser.add_argument("--trial", action="store_true")
    parser.add_argument("--tables", action="store_true")
    options = parser.parse_args()
    import torch

    effort = TRIAL if options.trial else FULL
    if not (options.trial or options.tables or torch.cuda.is_available()):
        print("PyTorch sees no GPU here: nothing was measured")
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    every_part = parts(effort)
    requested = {
        name: measure
        for name, measure in every_part.items()
        if not options.only or any(part in name for part in options.only)
    }
    if not options.tables:
        until_s = time.monotonic() + options.seconds
        machine = machine_of(effort.device, options.commit or commit())
        measure_parts(requested, options.out, until_s, machine)
    measured = stored_figures(options.out, every_part)
    text = page(measured, list(every_part))
    (options.out / "tables.md").write_text(text)
    print(text)
    return sum(name not in measured for name in requested)


def machine_of(device: str, commit_id: str) -> str:
    """Return the device, what runs on it, the commit and the day."""
    import torch

    name = torch.cuda.get_device_name() if device == "gpu" else "CPU"
    software = f"PyTorch {torch.__version__}, Python {platform.python_version()}"
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    return f"{name}, {usable_cores()} cores, {software}, commit {commit_id}, {day}"


def path_of(folder: Path, name: str) -> Path:
    """Return the file of a part."""
    return folder / f"{name.replace(', ', '-').replace(' ', '-')}.json"


def stored_figures(folder: Path, names: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    """Return the figures that a folder has, by part."""
    paths = {name: path_of(folder, name) for name in names}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def measure_parts(
    requested: Mapping[str, Callable[[], dict[str, Any]]],
    folder: Path,
    until_s: float,
    machine: str,
) -> None:
    """Measure parts that a folder does not have; one that fails is not the others' end."""
    for name, measure in requested.items():
        path = path_of(folder, name)
        if path.exists() or time.monotonic() > until_s:
            continue
        began = time.monotonic()
        try:
            results = measure()
        except Exception:  # noqa: BLE001 - see above
            traceback.print_exc()
            print(f"{name}: failed", flush=True)
            continue
        path.write_text(json.dumps({**results, "machine": machine}))
        print(f"{time.monotonic() - began:6.1f} s  {name}", flush=True)
        for key in ("conditions", "caveats", "endings", "notes"):
            if lines := results.get(key):
                print(f"  {key}: {lines}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
