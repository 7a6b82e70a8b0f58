"""mlscope's own OpenTelemetry spans: an evaluation is one connected trace."""

from collections.abc import Sequence
from functools import partial

import pytest

from tests.flow.clusters import online, running, until

pytest.importorskip("opentelemetry.sdk", reason="needs the extra `telemetry`")
from tests.flow.span_receiver import ReceivedSpan, Receiver, receiving

#: this module sets where the services send spans: the cluster is its own
CLUSTER: dict[str, str] = {}

WAY = {
    ("scheduler", "accept"),
    ("scheduler", "match"),
    ("scheduler", "command start"),
    ("agent", "session"),
    ("agent", "run"),
    ("collector", "collect"),
    ("analyzer", "analyze"),
}
PARENTS = {
    "match": "accept",
    "session": "command start",
    "run": "session",
    "collect": "run",
}


def whole_way(receiver: Receiver, evaluation: str) -> list[ReceivedSpan]:
    """Return the spans of an evaluation once its whole way is among them, and how it ended."""
    spans = receiver.of(evaluation)
    has_ended = any(span.attributes.get("mlscope.fact") == "analysis.completed" for span in spans)
    return spans if has_ended and {(s.service, s.name) for s in spans} >= WAY else []


def assert_connected(spans: Sequence[ReceivedSpan]) -> None:
    """Check that the spans are one trace, in which every span but the first has its parent."""
    assert len({span.trace for span in spans}) == 1
    ids = {span.span for span in spans}
    assert [span.name for span in spans if not span.parent] == ["accept"]
    assert [span.name for span in spans if span.parent and span.parent not in ids] == []


def parent_of(spans: Sequence[ReceivedSpan], name: str) -> str:
    """Return the name of the parent of the only span with this name."""
    (child,) = [span for span in spans if span.name == name]
    return next(span.name for span in spans if span.span == child.parent)


@pytest.mark.long
def test_each_evaluation_is_one_connected_trace() -> None:
    with receiving() as receiver:
        settings = {"MLSCOPE_TELEMETRY_URL": receiver.address}
        with running(settings) as cluster, cluster.client() as client:
            asked = [client.run("identity", scenarios=online()) for _ in range(2)]
            traces = []
            for evaluation in asked:
                evaluation.wait(60)
                traces.append(until(partial(whole_way, receiver, evaluation.id), 60))
    assert traces[0][0].trace != traces[1][0].trace
    for spans in traces:
        assert_connected(spans)
        assert {name: parent_of(spans, name) for name in PARENTS} == PARENTS
        assert all(span.end_ns >= span.start_ns > 0 for span in spans)
