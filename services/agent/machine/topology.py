"""How a host's processors are built: sockets, cores, threads, caches, nodes of memory (I/O: /sys).

The files: https://docs.kernel.org/admin-guide/cputopology.html and
https://docs.kernel.org/admin-guide/abi-stable.html (`/sys/devices/system/node`). Processors that
are switched off, as the further threads of a POWER core are with SMT off, have no topology.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from services.agent.machine.kernel_files import text_of

SYSTEM = Path("/sys/devices/system")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_KINDS = {"Data": "d", "Instruction": "i"}
_SIZE = re.compile(r"(\d+)([KMG]?)")


@dataclass(frozen=True, slots=True)
class Topology:
    """How a host is built; 0 and {} are unknown."""

    sockets: int = 0
    physical_cores: int = 0
    #: most hardware threads of a core
    threads_per_core: int = 0
    #: nodes of memory that have cores
    numa_nodes: int = 0
    #: bytes of the largest cache of each level and kind: L1d, L1i, L2, L3
    cache_bytes: dict[str, int] = field(default_factory=dict)


def topology(system: Path = SYSTEM) -> Topology:
    """Return how this host is built, by the kernel's folder `system`."""
    cores: dict[str, Path] = {}
    sockets: dict[str, None] = {}
    for folder in sorted((system / "cpu").glob("cpu[0-9]*")):
        threads = text_of(folder / "topology" / "thread_siblings_list")
        if threads:
            cores.setdefault(threads, folder)
            sockets.setdefault(text_of(folder / "topology" / "physical_package_id"))
    caches: dict[str, int] = {}
    for folder in cores.values():
        for name, size_bytes in caches_of(folder):
            caches[name] = max(caches.get(name, 0), size_bytes)
    # GPUs of POWER9 and CXL memory are nodes without cores.
    nodes = [text_of(node / "cpulist") for node in (system / "node").glob("node[0-9]*")]
    return Topology(
        sockets=len(sockets),
        physical_cores=len(cores),
        threads_per_core=max(map(_count, cores), default=0),
        numa_nodes=sum(map(bool, nodes)),
        cache_bytes=dict(sorted(caches.items())),
    )


def caches_of(core: Path) -> Iterator[tuple[str, int]]:
    """Yield name and bytes of each cache of a core; some firmware names a cache without a size."""
    for folder in (core / "cache").glob("index*"):
        level, kind = text_of(folder / "level"), text_of(folder / "type")
        size = _SIZE.fullmatch(text_of(folder / "size"))
        if level and size and int(size[1]):
            yield f"L{level}{_KINDS.get(kind, '')}", int(size[1]) * _UNITS.get(size[2], 1)


def _count(numbers: str) -> int:
    """Return how many numbers a list of the kernel has, as 3 of `0-1,4`."""
    bounds = (part.split("-") for part in numbers.split(","))
    return sum(int(bound[-1]) - int(bound[0]) + 1 for bound in bounds)
