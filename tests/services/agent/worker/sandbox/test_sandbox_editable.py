"""Packages that were installed with `pip install --editable`, in a worker's sandbox."""

from pathlib import Path

import pytest

from tests.services.agent.worker.sandbox.test_sandbox import needs_landlock, probe

EDITABLE = """
import site, sys, types
from services.agent.machine.landlock import confine
from services.agent.worker.sandbox.sandbox import reach_of

others = sys.modules.setdefault("__editable___others", types.ModuleType("__editable___others"))
finds_nothing = {"__module__": others.__name__, "find_spec": staticmethod(lambda *_: None)}
sys.meta_path.append(type("OtherFinder", (), finds_nothing))
site.addsitedir(str(scratch.parent / "site"))
confine(reach_of([], scratch, [secret.parent]), ())
import own_module, own_package
print(own_module.PLACE, own_package.PLACE)
print(outcome(lambda: (scratch.parent / "project" / "notes").read_bytes()))
(scratch / "x").write_bytes(b"x")
"""


@needs_landlock
def test_a_package_installed_editable_is_reached_and_its_project_is_not(tmp_path: Path) -> None:
    finders = pytest.importorskip("setuptools.command.editable_wheel")
    for name in ("own_module.py", "own_package/__init__.py", "notes"):
        file = tmp_path / "project" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"PLACE = {name!r}")
    names = {name: str(tmp_path / "project" / name) for name in ("own_module", "own_package")}
    (tmp_path / "site").mkdir()
    finder = tmp_path / "site" / "__editable___own_finder.py"
    finder.write_text(finders._finder_template("own", names, {}))
    line = "import __editable___own_finder; __editable___own_finder.install()"
    (tmp_path / "site" / "own.pth").write_text(line)
    reached, beside_it = probe(tmp_path, EDITABLE)
    assert (reached, beside_it) == ("own_module.py own_package/__init__.py", "PermissionError")
