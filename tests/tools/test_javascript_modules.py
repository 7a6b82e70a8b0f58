"""The drawing of JavaScript modules is that of their imports."""

from pathlib import Path

import pytest

from tools.javascript_modules import DRAWING, SCRIPTS, columns_of, drawing_of, imports_of


def test_the_drawing_is_made_of_today_s_modules() -> None:
    drawn = DRAWING.read_text("utf-8")
    assert drawn == drawing_of(imports_of(SCRIPTS)), "run `make module-graph`"


def test_imports_are_read_whatever_their_form(tmp_path: Path) -> None:
    (tmp_path / "rooms").mkdir()
    (tmp_path / "page.js").write_text(
        '/** @type {import("./never.js").T} */\nimport {\n  a,\n} from "./rooms/a.js";\n'
        'const later = () => import("./rooms/b.js");\n'
    )
    (tmp_path / "rooms/a.js").write_text('export * from "./b.js";\nimport "../../vendor/c.js";\n')
    (tmp_path / "rooms/b.js").write_text("")
    graph = imports_of(tmp_path)
    assert graph["page.js"] == {"rooms/a.js", "rooms/b.js"}
    columns = {"page.js": 0, "rooms/a.js": 1, "rooms/b.js": 2, "../vendor/c.js": 2}
    assert columns_of(graph) == columns


def test_a_circle_is_an_error() -> None:
    with pytest.raises(ValueError, match="circle"):
        columns_of({"a.js": frozenset({"b.js"}), "b.js": frozenset({"a.js"})})
