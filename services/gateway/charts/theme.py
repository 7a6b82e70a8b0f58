"""How charts look: by the page's CSS variables in SVG, in fixed colours in PNG and PDF. Pure."""

from dataclasses import dataclass
from typing import Any

from services.gateway.pages.colours import SERIES

_FONT = "Arial, 'Liberation Sans', 'Helvetica Neue', sans-serif"
"""As wide in browsers as in the engine that lays out a drawing, so that labels are not cut."""


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of a chart, as CSS."""

    ink: str
    soft: str
    line: str
    paper: str
    bar: str = SERIES[0]


PAGE = Theme(
    ink="var(--ink, #1a1c20)",
    soft="var(--soft, #5b616b)",
    line="var(--line, #d9dbe0)",
    paper="var(--paper, transparent)",
)
"""Follows the page, also when its reader changes between light and dark."""

PRINT = Theme(ink="#1a1c20", soft="#5b616b", line="#d9dbe0", paper="#ffffff")
"""Black on white, for files."""


def config_of(theme: Theme, *, is_narrow: bool = False) -> dict[str, Any]:
    """Return the Vega-Lite `config` of a theme; in narrow charts legends have fewer columns."""
    text = {"labelColor": theme.soft, "titleColor": theme.ink, "titleFontWeight": 500}
    return {
        "background": theme.paper if theme is PRINT else "transparent",
        "font": _FONT,
        "padding": {"left": 8, "top": 6, "right": 8, "bottom": 2},
        "view": {"stroke": None},
        "axis": {
            **text,
            "labelFontSize": 11,
            "titleFontSize": 12,
            "gridColor": theme.line,
            "domainColor": theme.soft,
            "tickColor": theme.soft,
            "labelPadding": 4,
            "titlePadding": 8,
        },
        "axisX": {"domain": True, "grid": False},
        "axisY": {"domain": False, "ticks": False},
        "axisQuantitative": {"grid": True, "tickCount": 4 if is_narrow else 6},
        "legend": {
            **text,
            "orient": "top",
            "direction": "horizontal",
            "columns": 2 if is_narrow else 5,
            "labelFontSize": 11,
            "titleFontSize": 11,
            "labelLimit": 150 if is_narrow else 320,
            "symbolType": "square",
            "symbolBaseFillColor": theme.soft,
            "offset": 8,
        },
        "header": {
            "labelColor": theme.ink,
            "titleColor": theme.ink,
            "labelFontSize": 12,
            "labelFontWeight": 500,
            "labelOrient": "top",
            "labelAnchor": "start",
            "labelPadding": 9,
            "title": None,
        },
        "range": {"category": list(SERIES), "ramp": {"scheme": "blues"}},
        "bar": {"color": theme.bar},
        "line": {"strokeWidth": 1.8},
        "point": {"size": 46, "color": theme.bar, "filled": True},
        "tick": {"color": theme.ink},
        "text": {"color": theme.ink, "fontSize": 11, "font": _FONT},
        "style": {
            "interval": {"color": theme.ink, "strokeWidth": 1.2, "opacity": 0.75},
            "whisker": {"color": theme.soft, "strokeWidth": 1},
            "band": {"strokeWidth": 5, "opacity": 0.35},
            "middle": {"color": theme.ink, "thickness": 1.6},
            "roof": {"color": theme.ink, "strokeWidth": 1.4},
            "ridge": {"color": theme.soft, "strokeDash": [3, 3]},
            "note": {"color": theme.soft, "fontSize": 11},
            "figure": {"color": theme.ink, "fontSize": 11, "align": "left", "dx": 5},
            "square": {"color": theme.ink, "fontSize": 11},
            "best": {"color": theme.ink, "filled": False, "size": 190, "strokeWidth": 1.6},
        },
    }
