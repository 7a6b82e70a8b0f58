"""The page of an evaluation in a real browser: live while it runs, the record afterwards."""

from tests.browser.chromium import Page
from tests.services.gateway.conftest import Running
from tests.stories import E, StandIns, a_run, beginning, ending, queries, spans, whole_story

STATE = "document.querySelector('#state')?.textContent"


def cell(run: str, column: int) -> str:
    return f"document.querySelector('#runs tr[data-run={run}]')?.cells[{column}].textContent"


async def test_a_page_follows_its_evaluation_to_the_record(
    page: Page, running: Running, standing: StandIns
) -> None:
    await standing.tell(*beginning()[:1])
    await page.open(f"{running.url}/evaluations/{E}")
    await page.until(f"{STATE} === 'requested'")
    await standing.tell(*beginning()[1:])
    await page.until(f"{STATE} === 'planned' && document.querySelectorAll('#runs tr').length === 2")
    started, completed, recorded = a_run("r0")
    await standing.tell(started, queries([5_000_000] * 40), spans(120))
    await page.until(f"{STATE} === 'running' && {cell('r0', 6)} === '40'")
    assert await page.value(cell("r0", 8)) == "120"
    await page.until(f"{cell('r0', 9)}.endsWith(' ms')")
    await standing.tell(completed, recorded, *a_run("r1"), *ending())
    await page.until("document.querySelector('[data-table=latency]')")
    assert await page.value(STATE) == "analyzed"
    assert await page.value("document.querySelector('#evaluation').dataset.live") == "no"
    assert page.trouble == []


async def test_a_page_that_lost_its_gateway_comes_back_where_it_was(
    page: Page, running: Running, standing: StandIns
) -> None:
    await standing.tell(*beginning())
    await page.open(f"{running.url}/evaluations/{E}")
    await page.until(f"{STATE} === 'planned'")
    await page.call("Network.enable")
    conditions = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    await page.call("Network.emulateNetworkConditions", offline=True, **conditions)
    await standing.tell(*a_run("r0"))
    await page.call("Network.emulateNetworkConditions", offline=False, **conditions)
    await standing.tell(*a_run("r1"))
    await page.until(f"{cell('r0', 5)} === 'recorded' && {cell('r1', 5)} === 'recorded'")


async def test_the_record_is_whole_without_a_script(
    page: Page, running: Running, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    await page.call("Target.getTargets")
    await page.open("about:blank")
    await page.call("Emulation.setScriptExecutionDisabled", value=True)
    await page.open(f"{running.url}/evaluations/{E}")
    await page.until("document.body.innerText.includes('Half of the queries took 5 ms.')")
    assert "recorded" in await page.value("document.body.innerText")
    assert page.trouble == []
