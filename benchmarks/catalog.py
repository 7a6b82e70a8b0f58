"""The catalog's cost: every shipped manifest parsed and listed, and an agent that waits for work.

Parsing and listing is one cold process, `shipped_catalog` and the rows of `ls models`; the floor is
a cold process in which the bare YAML loader reads the same files. The agent is the service of a
cluster that was given no work: no framework is loaded. PSS shares pages that others map as well.
Claims: 400 manifests or more in <= 1.5 s; an idle agent <= 120 MB resident.
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.claims import claim
from benchmarks.cluster import new_folder, running
from benchmarks.memory import resident

MANIFESTS = Path(__file__).parents[1] / "manifests"
REPEATS = 5
MOST_S = 1.5
LEAST_MODELS = 400
MOST_IDLE_BYTES = 120_000_000
SETTLES_S = 5.0

LISTED = """
import sys
from pathlib import Path
from cli.printing.catalog import catalog_rows, model_terminal_rows
from cli.offline.planning import shipped_catalog
from cli.printing.output import table_lines
lines = table_lines(model_terminal_rows(catalog_rows(shipped_catalog(Path(sys.argv[1])), "models")))
print(len(lines) - 1)
"""
FLOOR = """
import sys
from pathlib import Path
import yaml
paths = sorted(Path(sys.argv[1]).joinpath("models").rglob("*.y*ml"))
print(len([yaml.load(path.read_text("utf-8"), yaml.CSafeLoader) for path in paths]))
"""


def timed(script: str) -> tuple[float, int]:
    """Return the seconds of a cold process that runs a script, and the number it prints."""
    start = time.perf_counter()
    command = [sys.executable, "-c", script, str(MANIFESTS)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - start, int(ended.stdout)


def proportional_bytes(pid: int) -> int:
    """Return a process's proportional set size, 0 where the system does not tell."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def idle_agent() -> tuple[int, int]:
    """Return resident and proportional bytes of the agent of a cluster without work."""
    with new_folder() as folder, running(folder):
        time.sleep(SETTLES_S)
        pid, resident_bytes = resident(folder)["agent"]
        return resident_bytes, proportional_bytes(pid)


def main() -> int:
    """Print both figures with floor and claim; return how many claims are missed."""
    listed, floors, models = [], [], 0
    for _ in range(REPEATS):
        seconds, models = timed(LISTED)
        listed.append(seconds)
        floors.append(timed(FLOOR)[0])
    took_s, floor_s = statistics.median(listed), statistics.median(floors)
    print(f"{models} models listed  {took_s:6.2f} s   (claim <= {MOST_S}; max {max(listed):.2f})")
    print(f"bare YAML loader   {floor_s:6.2f} s   (floor; x{took_s / floor_s:.2f})")
    resident_bytes, pss_bytes = idle_agent()
    print(f"idle agent         {resident_bytes / 1e6:6.1f} MB  (RSS; claim <= 120)")
    print(f"                   {pss_bytes / 1e6:6.1f} MB  (PSS)")
    claim(
        "every manifest parsed and listed",
        took_s,
        most=MOST_S,
        unit="s",
        peer=f"bare YAML {floor_s:.2f}",
    )
    claim("an idle agent's memory", resident_bytes / 1e6, most=MOST_IDLE_BYTES / 1e6, unit="MB")
    missed = (took_s > MOST_S, models < LEAST_MODELS, resident_bytes > MOST_IDLE_BYTES)
    return sum(missed)


if __name__ == "__main__":
    sys.exit(main())
