"""The first page: what runs, the fleet, what became slower, and what to do first."""

from mlscope.evaluation.fold import fold
from mlscope.evaluation.status import status_of
from schemas.agent import Accelerator, Announcement, Hardware, Runtime
from schemas.analysis import Estimate, Headline
from schemas.status import AgentStatus, EvaluationStatus
from services.gateway.pages.catalog.agents import hardware_text
from services.gateway.pages.comparing.regressions import regressions_in
from services.gateway.pages.home import HomeView, Overview
from services.gateway.rendering import html_of
from tests.stories import E, a_run, beginning, whole_story


def an_agent(name: str = "a1", *, state: str = "live", **hardware: object) -> AgentStatus:
    machine = Hardware(
        **{"hostname": "h", "architecture": "x86_64", "cores": 8, "memory_bytes": 16 << 30}
        | hardware
    )
    announcement = Announcement(
        agent=name,
        incarnation="i",
        hardware=machine,
        runtimes=(Runtime(framework="onnxruntime", version="1.31.1"),),
    )
    return AgentStatus(announcement=announcement, state=state, since_ns=1)


def shown(
    *history: EvaluationStatus,
    under_way: tuple[EvaluationStatus, ...] = (),
    agents: tuple[AgentStatus, ...] = (),
    can_start: bool = False,
) -> str:
    overview = Overview(under_way, 0, history, agents)
    view = HomeView(overview, can_compare=True, can_start=can_start, shows_agents=True)
    return html_of(view)


def running() -> EvaluationStatus:
    """Return an evaluation of which one run is over and one under way."""
    return status_of(fold([*beginning(), *a_run("r0"), a_run("r1")[0]]))


def measured(evaluation: str, low: float, value: float, high: float) -> EvaluationStatus:
    headline = Headline(
        run="r0",
        agent="a1",
        scenario="online",
        latency_ns=Estimate(value=value, low=low, high=high),
    )
    status = status_of(fold(whole_story(evaluation)), runs=False)
    return status.model_copy(update={"headlines": (headline,)})


def test_an_empty_home_says_what_to_do_first() -> None:
    assert "mlscope run efficientnet-lite0" in shown()
    assert 'href="/new"' not in shown()
    assert '<a class="button primary" href="/new">Start the first one</a>' in shown(can_start=True)
    assert "mlscope serve agent" in shown()


def test_what_runs_is_shown_with_its_progress_and_its_agent() -> None:
    html = shown(under_way=(running(),), agents=(an_agent(),))
    assert f'href="/evaluations/{E}">tiny:1.0.0</a>' in html
    assert 'value="0.5" data-runs="2" data-over="1"' in html
    assert '<span class="current">r1 on a1</span>' in html
    assert '<span data-run="r1" data-queries="100"></span>' in html
    assert '<li class="busy">' in html
    assert '<h1 id="now-title">Under way <span class="soft">1</span></h1>' in html


def test_agents_are_shown_with_what_they_are_and_those_that_are_gone_last() -> None:
    html = shown(agents=(an_agent("gone", state="lost"), an_agent("here")))
    assert "1 idle, 1 gone" in html
    assert html.index('href="/agents/here"') < html.index('href="/agents/gone"')
    assert "8 cores of x86_64, 16\N{NO-BREAK SPACE}GiB" in html
    assert "onnxruntime 1.31.1" in html


def test_accelerators_come_first_and_are_counted() -> None:
    gpus = (Accelerator(name="H200"), Accelerator(name="H200"))
    machine = Hardware(hostname="h", architecture="x", cpu_model="EPYC", accelerators=gpus)
    assert hardware_text(machine) == "2 x H200, 1 core of EPYC"


def test_a_load_that_became_slower_for_certain_is_told_with_both_figures() -> None:
    newer, older = measured("e2", 6e6, 6.2e6, 6.4e6), measured("e1", 4.9e6, 5e6, 5.1e6)
    html = shown(newer, older)
    assert "+24.0%" in html
    assert ">5.00\N{NO-BREAK SPACE}ms</a><small>4.90 … 5.10</small>" in html
    assert "6.20\N{NO-BREAK SPACE}ms<small>6.00 … 6.40</small>" in html
    assert "<small>19.3 … 28.8%</small>" in html
    assert "no noise seen<small>0 s apart, drift unknown</small>" in html
    assert 'href="/compare?evaluation=e1&amp;evaluation=e2"' in html


def test_slower_loads_are_sorted_by_what_is_certain_or_as_asked() -> None:
    wide = [measured("e4", 5.2e6, 9e6, 12e6), measured("e3", 4.9e6, 5e6, 5.1e6)]
    narrow = [measured("e2", 6e6, 6.2e6, 6.4e6), measured("e1", 4.9e6, 5e6, 5.1e6)]
    narrow = [
        one.model_copy(update={"headlines": (one.headlines[0].model_copy(update=change),)})
        for one, change in zip(
            narrow, ({"batch_size": 8, "is_noisy": True}, {"batch_size": 8}), strict=True
        )
    ]
    history = [*wide, *narrow]
    assert [one.newer.evaluation for one in regressions_in(history)] == ["e2", "e4"]
    assert [one.newer.evaluation for one in regressions_in(history, "change")] == ["e4", "e2"]
    assert [one.newer.evaluation for one in regressions_in(history, "quiet")] == ["e4", "e2"]
    assert [one.noise for one in regressions_in(history)] == ["noisy now", "no noise seen"]


def test_a_change_within_the_drift_of_earlier_measurements_is_no_regression() -> None:
    pair = [measured("e5", 6e6, 6.2e6, 6.4e6), measured("e4", 4.9e6, 5e6, 5.1e6)]

    def among(*earlier_ns: float) -> list[str]:
        earlier = [measured(f"e{n}", ns, ns, ns) for n, ns in enumerate(earlier_ns)]
        return [one.doubt for one in regressions_in([*pair, *earlier])]

    assert among(5e6, 6e6, 5.5e6) == []
    assert among(5e6, 6e6) == ["0 s apart, drift unknown"]
    assert among(5e6, 5.05e6, 5e6) == ["0 s apart, drift up to 3.6%"]


def test_what_is_uncertain_small_faster_or_of_another_load_is_no_regression() -> None:
    older = measured("e1", 4.9e6, 5e6, 5.1e6)
    for low, value, high in ((5.0e6, 6e6, 7e6), (5.11e6, 5.12e6, 5.13e6), (1e6, 2e6, 3e6)):
        assert regressions_in([measured("e2", low, value, high), older]) == []
    other = measured("e2", 6e6, 6.2e6, 6.4e6)
    load = other.headlines[0].model_copy(update={"batch_size": 8})
    assert regressions_in([other.model_copy(update={"headlines": (load,)}), older]) == []


def test_a_model_of_a_request_is_no_slower_published_one() -> None:
    newer, older = measured("e2", 6e6, 6.2e6, 6.4e6), measured("e1", 4.9e6, 5e6, 5.1e6)
    own_version = f"{older.model.partition(':')[0]}:1.0.0+4f8a12345678"
    sent = newer.model_copy(update={"model": own_version})
    assert len(regressions_in([newer, older])) == 1
    assert regressions_in([sent, older]) == []
    (slower,) = regressions_in([sent, older.model_copy(update={"model": own_version})])
    assert "model=" + own_version.replace(":", "%3A").replace("+", "%2B") in slower.history


def test_loads_on_several_frameworks_are_compared_with_those_on_their_own() -> None:
    several = measured("e2", 6e6, 6.2e6, 6.4e6)
    load = several.headlines[0].model_copy(update={"framework": "litert"})
    frameworks = "onnxruntime 1.31.1, litert 2.2"
    several = several.model_copy(update={"headlines": (load,), "framework": frameworks})
    older = measured("e1", 4.9e6, 5e6, 5.1e6)
    assert regressions_in([several, older]) == []
    alone = older.model_copy(update={"framework": "litert 2.1"})
    (slower,) = regressions_in([several, alone])
    assert "framework=litert&" in slower.history


def test_only_the_two_newest_measurements_of_a_load_are_compared() -> None:
    figures = [(5e6, 5e6, 5e6), (6e6, 6e6, 6e6), (5e6, 5e6, 5e6)]
    history = [measured(f"e{number}", *each) for number, each in enumerate(figures)]
    assert regressions_in(history) == []


def test_the_digest_changes_with_what_is_shown() -> None:
    agents = (an_agent(),)
    one = Overview((running(),), 0, (), agents).digest
    assert one == Overview((running(),), 0, (), agents).digest
    later = status_of(fold([*beginning(), *a_run("r0"), *a_run("r1")]))
    assert one != Overview((later,), 0, (), agents).digest
    assert one != Overview((running(),), 0, (), (an_agent(state="lost"),)).digest
