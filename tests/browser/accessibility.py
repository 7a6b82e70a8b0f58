"""What axe-core finds wrong with a page for people who do not see it or use no mouse."""

from pathlib import Path
from typing import Any

from playwright.async_api import Page

_AXE = Path(__file__).with_name("vendor") / "axe.min.js"
_SEVERE = ("serious", "critical")
_RUN = """async () => {
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations.map(({ id, impact, help, nodes }) => ({
    id, impact, help, where: nodes.map((node) => node.html.slice(0, 160)),
  }));
}"""


async def assert_accessible(page: Page) -> None:
    """Fail on everything serious or critical that axe-core finds in `page` as it stands."""
    if not await page.evaluate("typeof axe === 'object'"):
        await page.evaluate(f"{_AXE.read_text('utf-8')};0")
    violations: list[dict[str, Any]] = await page.evaluate(_RUN)
    severe = [violation for violation in violations if violation["impact"] in _SEVERE]
    lines = [
        f"{violation['id']} ({violation['impact']}): {violation['help']}\n    "
        + "\n    ".join(violation["where"])
        for violation in severe
    ]
    assert not severe, f"{page.url}\n" + "\n".join(lines)
