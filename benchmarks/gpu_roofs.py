"""Measures a GPU's roof with each library that can, and prints it beside the datasheet.

`python -m benchmarks.gpu_roofs [NUMBER] [--words FILE]`

One process a library, as an agent measures: PyTorch, JAX, CUDA's driver (the copy alone). FILE
takes what the first of them found, as an agent keeps it.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from services.agent.host.process import worker_environment
from services.agent.machine.datasheets import gpu_datasheet
from services.agent.machine.roofline import gpu_roof
from services.agent.machine.roofline.ceilings import ALL_THREADS, PRECISIONS, Roof

_PROBE = """
import json, sys
from services.agent.host.roofs.devices import gpu_device
from services.agent.machine.roofline import gpu_roof
number, opener = int(sys.argv[2]), gpu_roof.LIBRARIES[int(sys.argv[1])]
uuid = gpu_device(number).device
print(json.dumps(gpu_roof.measure_watched(number, uuid, [opener]).to_dict()))
"""
_TERA = 1e12


def measured_with(place: int, number: int) -> tuple[Roof, float]:
    """Return what the library of a place in `LIBRARIES` measures, and the seconds it took."""
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", _PROBE, str(place), str(number)],
        env=worker_environment({"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}),
        capture_output=True,
        text=True,
        check=False,
    )
    took_s = time.monotonic() - began
    if ended.returncode:
        return Roof(note=ended.stderr.strip()[-300:]), took_s
    return Roof.from_dict(json.loads(ended.stdout.splitlines()[-1])), took_s


def lines_of(roofs: dict[str, tuple[Roof, float]]) -> list[str]:
    """Return a Markdown table: a row a precision, a column a library, TFLOP/s and TB/s."""
    device = next((roof.device for roof, _ in roofs.values() if roof.device), "")
    sheet = gpu_datasheet(device)
    lines = [
        f"| {device} | datasheet | {' | '.join(roofs)} |",
        f"| --- |{' ---: |' * (len(roofs) + 1)}",
    ]
    for name in PRECISIONS:
        cells = [
            _cell(roof.peaks.get(name, {}).get(ALL_THREADS), sheet.peaks.get(name), roof, name)
            for roof, _ in roofs.values()
        ]
        lines.append(f"| {name}, TFLOP/s | {_tera(sheet.peaks.get(name))} | {' | '.join(cells)} |")
    cells = [
        _cell(roof.bandwidths.get(ALL_THREADS), sheet.bandwidth, roof, "copy")
        for roof, _ in roofs.values()
    ]
    lines.append(f"| copy, TB/s | {_tera(sheet.bandwidth)} | {' | '.join(cells)} |")
    took = [f"{took_s:.1f}" for _, took_s in roofs.values()]
    lines.append(f"| seconds, start and imports included | | {' | '.join(took)} |")
    return lines


def _cell(ceiling: object, sheet: float | None, roof: Roof, name: str) -> str:
    value = getattr(ceiling, "measured", None)
    if value is None:
        return roof.note or roof.missing.get(name, "not measured")
    uncertainty = getattr(ceiling, "uncertainty", None)
    spread = "" if uncertainty is None else f" ± {uncertainty:.1%}"
    return _tera(value) + spread + (f" ({value / sheet:.0%})" if sheet else "")


def _tera(value: float | None) -> str:
    return "" if value is None else f"{value / _TERA:.4g}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("number", nargs="?", type=int, default=0)
    parser.add_argument("--words", type=Path)
    arguments = parser.parse_args()
    roofs = {
        opener.__name__: measured_with(place, arguments.number)
        for place, opener in enumerate(gpu_roof.LIBRARIES)
    }
    print("\n".join(lines_of(roofs)))
    for name, (roof, _) in roofs.items():
        if roof.is_disturbed:
            print(f"- {name}: disturbed: {roof.disturbance}")
    methods = next(iter(roofs.values()))[0]
    for ceiling in list(methods.bandwidths.values())[:1]:
        print(f"- conditions: {ceiling.conditions}")
    for method in (*methods.peaks.values(), methods.bandwidths):
        print(f"- {method[ALL_THREADS].method}" if ALL_THREADS in method else "")
    if arguments.words is not None:
        arguments.words.write_text(json.dumps(methods.to_dict(), indent=1))


if __name__ == "__main__":
    main()
