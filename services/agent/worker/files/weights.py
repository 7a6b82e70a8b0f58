"""Puts the request's choice of weights into the manifest that a session opens. Pure."""

from mlscope.manifests.verifying import OPTION, RANDOM, UNVERIFIED
from schemas.plan import Subject


def with_weights_chosen(subject: Subject) -> Subject:
    """Return a subject as a predictor opens it: its option for weights is in its manifest.

    A model without a builder can't have random weights: its option stays, and the predictor refuses
    it as unknown.
    """
    choice, assets = subject.options.get(OPTION), subject.model.model
    is_random = choice == RANDOM and bool(assets.builder)
    if not is_random and choice != UNVERIFIED:
        return subject
    options = {name: value for name, value in subject.options.items() if name != OPTION}
    if is_random:
        assets = assets.model_copy(update={"weights": RANDOM})
    model = subject.model.model_copy(update={"model": assets})
    return subject.model_copy(update={"options": options, "model": model})
