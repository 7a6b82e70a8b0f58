"""Draws which JavaScript module of the gateway imports which: `python -m tools.javascript_modules`.

It reads the imports below services/gateway/static/js and writes docs/images/modules.svg: modules
stand in columns, each to the right of all that import it.
"""

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

REPOSITORY = Path(__file__).parents[1]
SCRIPTS = REPOSITORY / "services" / "gateway" / "static" / "js"
DRAWING = REPOSITORY / "docs" / "images" / "modules.svg"
_IMPORT = re.compile(
    r"""(?:^\s*(?:import|export)\b[^"';]*|\bimport\()["'](\.{1,2}/[^"']+)["']""", re.MULTILINE
)
_COLUMN, _LINE, _BOX, _MARGIN = 196, 24, 168, 12
_STYLE = (
    "text{font:11px system-ui,sans-serif;fill:#1a1c20}rect{fill:#f4f5f4;stroke:#9aa1ac}"
    "path{fill:none;stroke:#0b61a4;opacity:.35}.ground{fill:#fcfcfb;stroke:none}"
)

Graph = Mapping[str, frozenset[str]]


def imports_of(folder: Path) -> Graph:
    """Return what each module below a `folder` imports, by paths below it."""
    graph = {}
    for path in sorted(folder.rglob("*.js")):
        name = path.relative_to(folder).as_posix()
        targets = _IMPORT.findall(
            re.sub(r"/\*.*?\*/", "", path.read_text("utf-8"), flags=re.DOTALL)
        )
        base = posixpath.dirname(name)
        graph[name] = frozenset(
            posixpath.normpath(posixpath.join(base, target_path)) for target_path in targets
        )
    return graph


def columns_of(graph: Graph) -> dict[str, int]:
    """Return the column of each module of a `graph`: right of all that import it.

    Raises ValueError where modules import each other in a circle.
    """
    modules = sorted(set(graph).union(*graph.values()))
    columns = dict.fromkeys(modules, 0)
    for _ in range(len(modules) + 1):
        moved = False
        for name in modules:
            for target in graph.get(name, ()):
                if columns[target] <= columns[name]:
                    columns[target] = columns[name] + 1
                    moved = True
        if not moved:
            return columns
    raise ValueError("modules import each other in a circle")


def drawing_of(graph: Graph) -> str:
    """Return a `graph` as SVG."""
    columns = columns_of(graph)
    places: dict[str, tuple[int, int]] = {}
    for name in sorted(columns):
        line = sum(columns[placed] == columns[name] for placed in places)
        places[name] = (_MARGIN + columns[name] * _COLUMN, _MARGIN + line * _LINE)
    lines: list[str] = []
    for name in sorted(graph):
        for target in sorted(graph[name]):
            (x0, y0), (x1, y1) = places[name], places[target]
            x0, y0, y1 = x0 + _BOX, y0 + 9, y1 + 9
            lines.append(f'<path d="M{x0} {y0}C{x0 + 28} {y0} {x1 - 28} {y1} {x1} {y1}"/>')
    boxes: list[str] = []
    for name, (x, y) in places.items():
        text = escape(name.removeprefix("../").removesuffix(".js"))
        boxes.append(
            f'<rect x="{x}" y="{y}" width="{_BOX}" height="18" rx="3"/>'
            f'<text x="{x + 6}" y="{y + 13}">{text}</text>'
        )
    width = max(x for x, _ in places.values()) + _BOX + _MARGIN
    height = max(y for _, y in places.values()) + _LINE + _MARGIN
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
            f"<title>Imports of the gateway's JavaScript modules</title><style>{_STYLE}</style>",
            f'<rect class="ground" width="{width}" height="{height}"/>',
            *lines,
            *boxes,
            "</svg>\n",
        )
    )


if __name__ == "__main__":
    DRAWING.parent.mkdir(parents=True, exist_ok=True)
    DRAWING.write_text(drawing_of(imports_of(SCRIPTS)), "utf-8")
