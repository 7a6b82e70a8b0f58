"""What processors are called, and what they can do, by the text of /proc/cpuinfo. Pure.

The text differs by architecture: x86 names the model; ARM gives the numbers of who designed each
core and of its design (https://developer.arm.com/documentation/ddi0601, MIDR_EL1); POWER names the
processor in the line `cpu`; s390x gives the machine type; RISC-V at most its microarchitecture.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType

_ARM = {
    0xB76: "ARM1176", 0xC05: "Cortex-A5", 0xC07: "Cortex-A7", 0xC08: "Cortex-A8",
    0xC09: "Cortex-A9", 0xC0D: "Cortex-A17", 0xC0E: "Cortex-A17", 0xC0F: "Cortex-A15",
    0xD01: "Cortex-A32", 0xD02: "Cortex-A34", 0xD03: "Cortex-A53", 0xD04: "Cortex-A35",
    0xD05: "Cortex-A55", 0xD06: "Cortex-A65", 0xD07: "Cortex-A57", 0xD08: "Cortex-A72",
    0xD09: "Cortex-A73", 0xD0A: "Cortex-A75", 0xD0B: "Cortex-A76", 0xD0C: "Neoverse-N1",
    0xD0D: "Cortex-A77", 0xD0E: "Cortex-A76AE", 0xD40: "Neoverse-V1", 0xD41: "Cortex-A78",
    0xD42: "Cortex-A78AE", 0xD43: "Cortex-A65AE", 0xD44: "Cortex-X1", 0xD46: "Cortex-A510",
    0xD47: "Cortex-A710", 0xD48: "Cortex-X2", 0xD49: "Neoverse-N2", 0xD4A: "Neoverse-E1",
    0xD4B: "Cortex-A78C", 0xD4C: "Cortex-X1C", 0xD4D: "Cortex-A715", 0xD4E: "Cortex-X3",
    0xD4F: "Neoverse-V2", 0xD80: "Cortex-A520", 0xD81: "Cortex-A720", 0xD82: "Cortex-X4",
    0xD84: "Neoverse-V3", 0xD85: "Cortex-X925", 0xD87: "Cortex-A725", 0xD8E: "Neoverse-N3",
}  # fmt: skip
_APPLE = {
    0x022: "Icestorm-M1", 0x023: "Firestorm-M1", 0x024: "Icestorm-M1-Pro",
    0x025: "Firestorm-M1-Pro", 0x028: "Icestorm-M1-Max", 0x029: "Firestorm-M1-Max",
    0x032: "Blizzard-M2", 0x033: "Avalanche-M2", 0x034: "Blizzard-M2-Pro",
    0x035: "Avalanche-M2-Pro", 0x038: "Blizzard-M2-Max", 0x039: "Avalanche-M2-Max",
}  # fmt: skip
_DESIGNERS: Mapping[int, tuple[str, Mapping[int, str]]] = MappingProxyType(
    {
        0x41: ("ARM", _ARM),
        0x42: ("Broadcom", {0x100: "Brahma-B53", 0x516: "ThunderX2"}),
        0x43: ("Cavium", {0x0A1: "ThunderX-88XX", 0x0AF: "ThunderX2-99xx"}),
        0x46: ("Fujitsu", {0x001: "A64FX"}),
        0x48: ("HiSilicon", {0xD01: "Kunpeng-920", 0xD02: "TaiShan-v120"}),
        0x4E: ("NVIDIA", {0x003: "Denver-2", 0x004: "Carmel"}),
        0x50: ("APM", {0x000: "X-Gene"}),
        0x51: ("Qualcomm", {0x001: "Oryon", 0x800: "Kryo", 0xC00: "Falkor"}),
        0x53: ("Samsung", {}),
        0x56: ("Marvell", {}),
        0x61: ("Apple", _APPLE),
        0x6D: ("Microsoft", {0xD49: "Azure-Cobalt-100"}),
        0x70: ("Phytium", {0x662: "FTC662", 0x663: "FTC663"}),
        0xC0: ("Ampere", {0xAC3: "Ampere-1", 0xAC4: "Ampere-1a"}),
    }
)
_IBM_Z = {
    "2964": "z13", "2965": "z13s", "3906": "z14", "3907": "z14 ZR1", "8561": "z15",
    "8562": "z15 T02", "3931": "z16", "3932": "z16 A02", "9175": "z17",
}  # fmt: skip
_MACHINE_TYPE = re.compile(r"machine = ([0-9A-F]{4})")
_X86_FEATURES = (
    "avx avx2 fma f16c avx512f avx512_vnni avx512_bf16 avx512_fp16 avx_vnni "
    "amx_tile amx_int8 amx_bf16"
)
_ARM_FEATURES = "neon asimd asimdhp asimddp i8mm bf16 sve sve2 svei8mm svebf16 sme sme2"
_Z_FEATURES = "vx vxe vxe2 nnpa"
_FEATURES = frozenset(f"{_X86_FEATURES} {_ARM_FEATURES} {_Z_FEATURES}".split())
"""Instruction sets that frameworks choose their kernels by, as Linux calls them."""
_ALTIVEC = "altivec"


def name_in(text: str) -> str:
    """Return the model of a machine's processor, by the `text` of /proc/cpuinfo; '' unknown.

    Cores of several designs are counted: `4 x Apple Icestorm-M1 + 4 x Apple Firestorm-M1`.
    """
    blocks = list(_blocks(text))
    # On ARM first: there, a line `model name` says no more than `ARMv7 Processor rev 4 (v7l)`.
    designs = Counter(filter(None, map(arm_design, blocks)))
    if len(designs) == 1:
        return next(iter(designs))
    if designs:
        return " + ".join(f"{count} x {name}" for name, count in designs.items())
    if machine := _MACHINE_TYPE.search(text):
        return f"IBM {_IBM_Z.get(machine[1], 'Z')} ({machine[1]})"
    keys = ("model name", "cpu model", "cpu", "uarch", "isa")
    named = ((key, block[key]) for key in keys for block in blocks if block.get(key))
    key, value = next(named, ("", ""))
    # POWER9 (raw), altivec supported
    return re.split(r" \(|, altivec", value)[0] if key == "cpu" else value


def features_in(text: str) -> tuple[str, ...]:
    """Return the instruction sets that matter for inference, by the `text` of /proc/cpuinfo.

    Only those that every core has count.
    """
    by_core = [core for block in _blocks(text) if (core := features_of_core(block))]
    return tuple(sorted(frozenset.intersection(*by_core))) if by_core else ()


def features_of_core(block: Mapping[str, str]) -> frozenset[str]:
    """Return the noted instruction sets of one core."""
    words = " ".join(block.get(key, "") for key in ("flags", "features")).split()
    features = _FEATURES.intersection(words)
    if _ALTIVEC in block.get("cpu", ""):
        features |= {_ALTIVEC}
    extensions = block.get("isa", "").partition("_")[0]
    # rv64imafdcv: the single letters follow the width.
    return features | {"v"} if "v" in extensions[4:] else features


def arm_design(block: Mapping[str, str]) -> str:
    """Return the designer and the design of an ARM core, '' for another core."""
    try:
        designer, part = int(block["cpu implementer"], 16), int(block["cpu part"], 16)
    except (KeyError, ValueError):
        return ""
    company, designs = _DESIGNERS.get(designer, (f"designer {designer:#04x}", {}))
    return f"{company} {designs.get(part, f'part {part:#05x}')}"


def _blocks(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each block of lines, by names in lower case."""
    for block in re.split(r"\n\s*\n", text):
        pairs = (line.partition(":") for line in block.splitlines())
        if fields := {name.strip().lower(): value.strip() for name, colon, value in pairs if colon}:
            yield fields
