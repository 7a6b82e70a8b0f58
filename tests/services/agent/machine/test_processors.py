"""Hosts that are not x86 announce what they are: ARM, POWER, s390x and RISC-V."""

from pathlib import Path

import pytest

from services.agent.machine.processor_names import features_in, name_in
from services.agent.machine.topology import Topology, topology
from tests.services.agent.machine import linux_trees as trees
from tests.services.agent.machine.linux_trees import Tree


@pytest.mark.parametrize(
    ("tree", "name"),
    [
        (trees.GRAVITON, "ARM Neoverse-V1"),
        (trees.ALTRA, "ARM Neoverse-N1"),
        (trees.RASPBERRY, "ARM Cortex-A72"),
        (trees.RASPBERRY_32, "ARM Cortex-A72"),
        (trees.ASAHI, "4 x Apple Icestorm-M1 + 4 x Apple Firestorm-M1"),
        (trees.POWER9, "POWER9"),
        (trees.POWER10_SMT_OFF, "POWER10"),
        (trees.Z15, "IBM z15 (8561)"),
        (trees.SIFIVE, "sifive,u74-mc"),
        (trees.SPACEMIT, "Spacemit(R) X60"),
        (trees.UNKNOWN_ARM, "ARM part 0xfff"),
        (trees.UNKNOWN_DESIGNER, "designer 0x99 part 0x001"),
        (Tree("model name\t: AMD EPYC 9654 96-Core Processor"), "AMD EPYC 9654 96-Core Processor"),
        (Tree("processor\t: 0\nCPU implementer\t: what"), ""),
        (Tree(""), ""),
    ],
)
def test_a_processor_has_its_name(tree: Tree, name: str) -> None:
    assert name_in(tree.cpuinfo) == name


@pytest.mark.parametrize(
    ("tree", "features"),
    [
        (trees.GRAVITON, "asimd asimddp asimdhp bf16 i8mm sve svebf16 svei8mm"),
        (trees.RASPBERRY, "asimd"),
        (trees.RASPBERRY_32, "neon"),
        (trees.ASAHI, "asimd asimddp asimdhp"),
        (trees.POWER9, "altivec"),
        (trees.Z15, "vx vxe vxe2"),
        (trees.SIFIVE, ""),
        (trees.SPACEMIT, "v"),
        (Tree("flags\t: fpu avx2 amx_bf16\n\nflags\t: fpu avx2"), "avx2"),
    ],
)
def test_features_are_those_of_every_core(tree: Tree, features: str) -> None:
    assert features_in(tree.cpuinfo) == tuple(features.split())


KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (trees.GRAVITON, Topology(1, 16, 1, 1)),
        (trees.ALTRA, Topology(2, 160, 1, 2)),
        (trees.RASPBERRY, Topology(1, 4, 1, 0)),
        (trees.POWER9, Topology(2, 32, 4, 2)),
        (trees.POWER10_SMT_OFF, Topology(1, 4, 1, 1)),
        (trees.Z15, Topology(1, 1, 2, 0)),
        (Tree(""), Topology()),
    ],
)
def test_a_host_has_sockets_cores_and_threads(
    tree: Tree, expected: Topology, tmp_path: Path
) -> None:
    found = topology(tree.write(tmp_path))
    counts = (found.sockets, found.physical_cores, found.threads_per_core, found.numa_nodes)
    assert Topology(*counts) == expected


@pytest.mark.parametrize(
    ("tree", "caches"),
    [
        (trees.ASAHI, {"L1d": 128 * KIB, "L1i": 192 * KIB, "L2": 12 * MIB}),
        (trees.POWER9, {"L1d": 32 * KIB, "L1i": 32 * KIB, "L2": 512 * KIB, "L3": 10 * MIB}),
        (trees.RASPBERRY, {}),
    ],
)
def test_caches_are_the_largest_of_each_kind(
    tree: Tree, caches: dict[str, int], tmp_path: Path
) -> None:
    assert topology(tree.write(tmp_path)).cache_bytes == caches
