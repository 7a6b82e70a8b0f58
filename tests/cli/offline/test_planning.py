"""What a plan without a cluster presumes of the agent that will do it."""

import pytest

from cli.offline.planning import suitable_version
from schemas.manifest import FrameworkNeed
from schemas.request import Evaluate
from tests.stories import a_model


@pytest.mark.parametrize(
    ("of_model", "of_request", "expected"),
    [
        ("", "", "1.0.0"),
        (">=2.0", "", "2.0"),
        (">=1.20 <2", "1.21.*", "1.21"),
        (">=2.0", ">=2.5", "2.5"),
        (">=2.0", "newest", "0"),
    ],
)
def test_a_presumed_version_satisfies_all_constraints(
    of_model: str, of_request: str, expected: str
) -> None:
    model = a_model()
    framework = model.framework.model_copy(update={"version": of_model})
    model = model.model_copy(update={"framework": framework})
    need = FrameworkNeed(name=framework.name, version=of_request) if of_request else None
    assert suitable_version(Evaluate(model=model, framework=need), model) == expected
