"""Trees of /proc and /sys as Linux shows them on machines that are not x86.

The texts have the form that the kernel prints on such a machine; serial numbers are made up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Caches = tuple[tuple[int, str, str], ...]
"""Level, type and size of each cache of a core; a size '' where the firmware gives none."""


@dataclass(frozen=True)
class Cores:
    """Some cores alike: how many, the threads that are on and those there are of each core."""

    count: int
    caches: Caches = ()
    threads: int = 1
    slots: int = 1
    package: str = "0"


@dataclass(frozen=True)
class Tree:
    """One machine."""

    cpuinfo: str
    cores: Sequence[Cores] = ()
    #: which processors each node of memory has
    nodes: Mapping[str, str] = field(default_factory=dict)

    def write(self, root: Path) -> Path:
        """Write the tree below `root`; return the kernel's folder `system`."""
        system, number = root / "sys" / "devices" / "system", 0
        for cores in self.cores:
            for _ in range(cores.count):
                _write_core(system, number, cores)
                number += cores.slots
        for name, processors in self.nodes.items():
            _put(system / "node" / name / "cpulist", processors)
        _put(root / "proc" / "cpuinfo", self.cpuinfo)
        return system


def _write_core(system: Path, first: int, cores: Cores) -> None:
    """Write a core's threads; those that are off have a folder without a topology."""
    last = first + cores.threads - 1
    siblings = f"{first}-{last}" if last > first else f"{first}"
    for number in range(first, first + cores.slots):
        folder = system / "cpu" / f"cpu{number}"
        _put(folder / "online", str(int(number <= last)))
        if number > last:
            continue
        _put(folder / "topology" / "thread_siblings_list", siblings)
        _put(folder / "topology" / "physical_package_id", cores.package)
        for index, (level, kind, size) in enumerate(cores.caches):
            cache = folder / "cache" / f"index{index}"
            _put(cache / "level", str(level))
            _put(cache / "type", kind)
            if size:
                _put(cache / "size", size)


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def _arm(count: int, designer: int, part: int, features: str, *, first: int = 0) -> str:
    """Return what the kernel prints of ARM cores."""
    return "".join(
        f"processor\t: {number}\nBogoMIPS\t: 50.00\nFeatures\t: {features}\n"
        f"CPU implementer\t: {designer:#04x}\nCPU architecture: 8\nCPU variant\t: 0x1\n"
        f"CPU part\t: {part:#05x}\nCPU revision\t: 1\n\n"
        for number in range(first, first + count)
    )


def _power(numbers: Sequence[int], name: str, end: str) -> str:
    """Return what the kernel prints of POWER's threads."""
    blocks = (
        f"processor\t: {number}\ncpu\t\t: {name}, altivec supported\n"
        "clock\t\t: 3783.000000MHz\nrevision\t: 2.2 (pvr 004e 1202)\n\n"
        for number in numbers
    )
    return "".join(blocks) + end


_V8 = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm"
_ALTRA = f"{_V8} lrcpc dcpop asimddp ssbs"
_V1 = (
    f"{_V8} jscvt fcma lrcpc dcpop sha3 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs "
    "paca pacg dcpodp svei8mm svebf16 i8mm bf16 dgh rng"
)
_M1 = (
    f"{_V8} jscvt fcma lrcpc dcpop sha3 asimddp sha512 asimdfhm dit uscat ilrcpc flagm ssbs sb "
    "paca pacg dcpodp flagm2 frint"
)
_PI_END = (
    "Revision\t: c03114\nSerial\t\t: 1000000012345678\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n"
)
_PI_32 = "".join(
    f"processor\t: {number}\nmodel name\t: ARMv7 Processor rev 3 (v7l)\nBogoMIPS\t: 270.00\n"
    "Features\t: half thumb fastmult vfp edsp neon vfpv3 tls vfpv4 idiva idivt vfpd32 lpae evtstrm "
    "crc32\nCPU implementer\t: 0x41\nCPU architecture: 7\nCPU variant\t: 0x0\nCPU part\t: 0xd08\n"
    "CPU revision\t: 3\n\n"
    for number in range(4)
)
_POWERNV = (
    "timebase\t: 512000000\nplatform\t: PowerNV\nmodel\t\t: 8335-GTH\n"
    "machine\t\t: PowerNV 8335-GTH\nfirmware\t: OPAL\nMMU\t\t: Radix\n"
)
_PSERIES = (
    "timebase\t: 512000000\nplatform\t: pSeries\nmodel\t\t: IBM,9080-HEX\n"
    "machine\t\t: CHRP IBM,9080-HEX\nMMU\t\t: Radix\n"
)
_Z15 = """vendor_id       : IBM/S390
# processors    : 2
bogomips per cpu: 21881.00
max thread id   : 1
features\t: esan3 zarch stfle msa ldisp eimm dfp edat etf3eh highgprs te vx vxd vxe gs vxe2 vxp sort
cache0          : level=1 type=Data scope=Private size=128K line_size=256 associativity=8
cache1          : level=1 type=Instruction scope=Private size=128K line_size=256 associativity=8
processor 0: version = FF,  identification = 0133E8,  machine = 8561
processor 1: version = FF,  identification = 0133E8,  machine = 8561

cpu number      : 0
physical id     : 1
core id         : 0
"""
_RISCV = "".join(
    f"processor\t: {number}\nhart\t\t: {number + 1}\n"
    "isa\t\t: rv64imafdc_zicntr_zicsr_zifencei_zihpm_zba_zbb\nmmu\t\t: sv39\n"
    "uarch\t\t: sifive,u74-mc\n\n"
    for number in range(4)
)
_RISCV_VECTOR = (
    "processor\t: 0\nhart\t\t: 0\nmodel name\t: Spacemit(R) X60\n"
    "isa\t\t: rv64imafdcv_zicbom_zicboz_zicntr_zfh_zvfh\nmmu\t\t: sv39\n\n"
)


def _caches(level_1: str, instructions: str, level_2: str, level_3: str = "") -> Caches:
    usual = ((1, "Data", level_1), (1, "Instruction", instructions), (2, "Unified", level_2))
    return (*usual, (3, "Unified", level_3)) if level_3 else usual


_N1 = _caches("64K", "64K", "1024K")
_P9 = _caches("32K", "32K", "512K", "10240K")
GRAVITON = Tree(
    _arm(16, 0x41, 0xD40, _V1),
    (Cores(16, _caches("64K", "64K", "1024K", "32768K")),),
    {"node0": "0-15"},
)
ALTRA = Tree(
    _arm(160, 0x41, 0xD0C, _ALTRA),
    (Cores(80, _N1, package="36"), Cores(80, _N1, package="3616")),
    {"node0": "0-79", "node1": "80-159"},
)
RASPBERRY = Tree(
    _arm(4, 0x41, 0xD08, "fp asimd evtstrm crc32 cpuid") + _PI_END,
    (Cores(4, _caches("", "", "")),),
)
RASPBERRY_32 = Tree(f"{_PI_32}Hardware\t: BCM2711\n{_PI_END}", (Cores(4),))
ASAHI = Tree(
    _arm(4, 0x61, 0x022, _M1) + _arm(4, 0x61, 0x023, _M1, first=4),
    (Cores(4, _caches("64K", "128K", "4096K")), Cores(4, _caches("128K", "192K", "12288K"))),
    {"node0": "0-7"},
)
POWER9 = Tree(
    _power(range(128), "POWER9", _POWERNV),
    (Cores(16, _P9, 4, 4, "0"), Cores(16, _P9, 4, 4, "8")),
    {"node0": "0-63", "node8": "64-127", "node252": "", "node255": ""},
)
POWER10_SMT_OFF = Tree(
    _power(range(0, 32, 8), "POWER10 (architected)", _PSERIES),
    (Cores(4, _caches("32K", "48K", "1024K", "4096K"), 1, 8),),
    {"node2": "0,8,16,24"},
)
Z15 = Tree(_Z15, (Cores(1, _caches("128K", "128K", "4096K", "262144K"), 2, 2, "1"),))
SIFIVE = Tree(_RISCV, (Cores(4, _caches("32K", "32K", "2048K")),))
SPACEMIT = Tree(_RISCV_VECTOR, (Cores(1, _caches("32K", "32K", "512K")),))
UNKNOWN_ARM = Tree(_arm(1, 0x41, 0xFFF, _V8), (Cores(1),))
UNKNOWN_DESIGNER = Tree(_arm(1, 0x99, 0x001, _V8), (Cores(1),))
