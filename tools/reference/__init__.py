"""The reference part of the documentation, generated from the code: `python -m tools.reference`.

`docs/conf.py` runs it before every build, so the reference never differs from the code.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from tools.reference.analyses import analyses_page
from tools.reference.command_line import command_line_page
from tools.reference.manifests import manifests_page
from tools.reference.messages import messages_page
from tools.reference.metrics import metrics_page
from tools.reference.rest import rest_page
from tools.reference.settings import settings_page

PAGES: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "command_line": command_line_page,
        "settings": settings_page,
        "messages": messages_page,
        "manifests": manifests_page,
        "rest": rest_page,
        "analyses": analyses_page,
        "metrics": metrics_page,
    }
)
"""Each page of the reference by its file name, and the function that returns its Markdown."""


INDEX = """# Reference

These pages are generated from the code.

```{{toctree}}
:maxdepth: 1

{names}
```
"""


def write_pages(folder: Path) -> None:
    """Write every page of the reference into `folder`; an unchanged file is left alone."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"index": INDEX.format(names="\n".join(PAGES))}
    texts |= {name: page() for name, page in PAGES.items()}
    for name, text in texts.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
