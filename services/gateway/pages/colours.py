"""The colour of a name, such as a layer's type: the same in every chart and timeline. Pure.

A name has a hue by what it does (`Conv2d` and `FusedConv` are blues), else by a hash, and a shade
by a hash; so it keeps its colour whatever else is shown. `static/js/colours.js` says the same.
"""

import re
from types import MappingProxyType

HUES = MappingProxyType(
    {
        "blue": ("#2784d5", "#4ba3f7", "#0865ae"),
        "orange": ("#b96a00", "#df8623", "#905203"),
        "sky": ("#098db2", "#30add6", "#0b6e8a"),
        "teal": ("#029678", "#37b696", "#04755d"),
        "pink": ("#c0558d", "#e274ab", "#9e366f"),
        "vermillion": ("#d05320", "#f37344", "#a83a05"),
        "violet": ("#8f68cb", "#ad87ed", "#724aab"),
        "yellow": ("#977e0d", "#ba9c13", "#756208"),
        "brown": ("#9b785c", "#bb9679", "#7d5b40"),
        "slate": ("#748196", "#929fb5", "#586478"),
    }
)
"""Three shades of each hue, legible on a light and on a dark page, and distinct without red
against green; from OKLCH with a lightness of 0.6, 0.7 and 0.5."""

OTHER = "#8a8f98"
"""The colour of what is summed up as other, and of names that are empty."""

HUE_OF_WORD = (
    ("depthwise", "sky"),
    ("conv", "blue"),
    ("attention", "vermillion"),
    ("sdpa", "vermillion"),
    ("softmax", "yellow"),
    ("norm", "violet"),
    ("gemm", "orange"),
    ("matmul", "orange"),
    ("linear", "orange"),
    ("fullyconnected", "orange"),
    ("dense", "orange"),
    ("addmm", "orange"),
    ("pool", "pink"),
    ("reduce", "pink"),
    ("mean", "pink"),
    ("elu", "teal"),
    ("clip", "teal"),
    ("sigmoid", "teal"),
    ("tanh", "teal"),
    ("swish", "teal"),
    ("erf", "teal"),
    ("activation", "teal"),
    ("embed", "brown"),
    ("gather", "brown"),
    ("resize", "brown"),
    ("upsample", "brown"),
    ("reshape", "slate"),
    ("transpose", "slate"),
    ("permute", "slate"),
    ("concat", "slate"),
    ("flatten", "slate"),
    ("squeeze", "slate"),
    ("slice", "slate"),
    ("split", "slate"),
    ("pad", "slate"),
    ("cast", "slate"),
    ("copy", "slate"),
    ("memcpy", "slate"),
    ("memset", "slate"),
    ("dropout", "slate"),
    ("identity", "slate"),
    ("add", "vermillion"),
    ("mul", "vermillion"),
    ("sub", "vermillion"),
    ("div", "vermillion"),
)
"""What a name contains (letters and digits, in lower case) and its hue; the first that fits."""

SERIES = tuple(
    HUES[hue][0]
    for hue in (
        "blue",
        "orange",
        "teal",
        "pink",
        "violet",
        "yellow",
        "sky",
        "vermillion",
        "brown",
        "slate",
    )
)
"""Colours of few things side by side, such as runs, in the order in which they are given."""

_HUE_NAMES = tuple(HUES)
_NOT_PLAIN = re.compile(r"[^a-z0-9]")


def colour_of(name: str) -> str:
    """Return the colour of a name as `#rrggbb`; names that differ in case or signs share it."""
    plain = _NOT_PLAIN.sub("", name.lower())
    if not plain:
        return OTHER
    number = hash_of(plain)
    hue = next((hue for part, hue in HUE_OF_WORD if part in plain), None)
    shades = HUES[hue or _HUE_NAMES[number // 3 % len(_HUE_NAMES)]]
    return shades[number % 3]


def hash_of(plain: str) -> int:
    """Return the 32-bit FNV-1a hash of a text of ASCII letters and digits."""
    number = 0x811C9DC5
    for code in plain.encode("ascii"):
        number = (number ^ code) * 0x01000193 & 0xFFFFFFFF
    return number
