"""What a process may use of its machine, by control groups as the kernel shows them."""

import os
from pathlib import Path

import pytest

from services.agent.machine.quotas import available_memory_bytes, usable_cores, usable_memory_bytes

GIB = 1 << 30


def laid_out(folder: Path, groups: str, files: dict[str, str]) -> tuple[Path, Path]:
    """Write a process's groups and the files of a mount; return both places."""
    mount = folder / "cgroup"
    for name, text in files.items():
        path = mount / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "self").write_text(groups)
    return folder / "self", mount


@pytest.fixture(autouse=True)
def _of_eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))


@pytest.mark.parametrize(
    ("text", "cores"),
    [("max 100000\n", 8), ("250000 100000\n", 2), ("50000 100000\n", 1), ("", 8), ("x y", 8)],
)
def test_version_2_limits_cores(tmp_path: Path, text: str, cores: int) -> None:
    assert usable_cores(*laid_out(tmp_path, "0::/\n", {"cpu.max": text})) == cores


def test_the_least_on_the_way_up_counts(tmp_path: Path) -> None:
    files = {"a/b/cpu.max": "600000 100000", "a/cpu.max": "300000 100000", "a/memory.max": "7"}
    places = laid_out(tmp_path, "0::/a/b\n", files | {"a/b/memory.max": "max"})
    assert (usable_cores(*places), usable_memory_bytes(GIB, *places)) == (3, 7)


def test_version_1_limits_both(tmp_path: Path) -> None:
    files = {
        "cpu,cpuacct/c/cpu.cfs_quota_us": "400000",
        "cpu,cpuacct/c/cpu.cfs_period_us": "100000",
        "memory/memory.limit_in_bytes": str(2 * GIB),
    }
    groups = "4:memory:/unseen\n2:cpu,cpuacct:/c\n1:name=systemd:/\n0::/\n"
    places = laid_out(tmp_path, groups, files)
    assert (usable_cores(*places), usable_memory_bytes(8 * GIB, *places)) == (4, 2 * GIB)


def test_version_1_says_no_limit_by_minus_one_or_a_huge_number(tmp_path: Path) -> None:
    files = {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}
    files["memory/memory.limit_in_bytes"] = str(2**63 - 4096)
    places = laid_out(tmp_path, "2:cpu:/\n1:memory:/\n", files)
    assert (usable_cores(*places), usable_memory_bytes(GIB, *places)) == (8, GIB)


def test_without_control_groups_the_affinity_counts(tmp_path: Path) -> None:
    places = (tmp_path / "none", tmp_path)
    assert (usable_cores(*places), usable_memory_bytes(GIB, *places)) == (8, GIB)


def free_of(folder: Path, groups: str, files: dict[str, str]) -> int:
    """Return the available memory of a host with 8 GiB free."""
    meminfo = folder / "meminfo"
    meminfo.write_text("MemTotal: 16777216 kB\nMemFree: 1 kB\nMemAvailable: 8388608 kB\n")
    return available_memory_bytes(meminfo, *laid_out(folder, groups, files))


def test_a_group_leaves_what_its_limit_has_above_its_use(tmp_path: Path) -> None:
    files = {
        "a/memory.max": str(3 * GIB),
        "a/memory.current": str(2 * GIB),
        "a/memory.stat": f"anon 5\ninactive_file {GIB // 2}\nactive_file 9\n",
        "memory.max": "max",
        "memory.current": str(9 * GIB),
    }
    assert free_of(tmp_path, "0::/a\n", files) == GIB + GIB // 2


def test_a_group_of_version_1_does_so_too(tmp_path: Path) -> None:
    files = {
        "memory/memory.limit_in_bytes": str(2 * GIB),
        "memory/memory.usage_in_bytes": str(GIB),
        "memory/memory.stat": f"inactive_file 7\ntotal_inactive_file {GIB // 4}\n",
    }
    assert free_of(tmp_path, "4:memory:/\n", files) == GIB + GIB // 4


def test_a_group_without_a_limit_leaves_what_the_host_has(tmp_path: Path) -> None:
    assert free_of(tmp_path, "0::/\n", {"memory.max": "max\n", "memory.current": "5\n"}) == 8 * GIB
    assert free_of(tmp_path, "", {}) == 8 * GIB


def test_a_group_over_its_limit_leaves_nothing_and_no_host_is_unknown(tmp_path: Path) -> None:
    files = {"memory.max": "7", "memory.current": "9"}
    assert free_of(tmp_path, "0::/\n", files) == 0
    assert available_memory_bytes(tmp_path / "none", *laid_out(tmp_path, "", {})) == 0
