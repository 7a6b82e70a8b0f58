"""Sphinx's configuration; the reference is generated from the code before each build."""

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from tools.reference import write_pages  # noqa: E402

write_pages(DOCS / "reference")

project = "mlscope"
author = "The mlscope authors"
extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "mlscope"
copybutton_prompt_text = "$ "
