"""Which weights a session opens: the request's choice, put into its manifest. Pure."""

from mlscope.manifests.verifying import OPTION, RANDOM, UNVERIFIED
from schemas.plan import Subject


def with_weights_chosen(subject: Subject) -> Subject:
    """Return a subject as a predictor opens it: what it says of weights is no option any more.

    Of a model that nothing builds there are no random weights: then the option stays, and the
    predictor says that it knows none.
    """
    chosen, assets = subject.options.get(OPTION), subject.model.model
    is_random = chosen == RANDOM and bool(assets.builder)
    if not is_random and chosen != UNVERIFIED:
        return subject
    options = {name: value for name, value in subject.options.items() if name != OPTION}
    if is_random:
        assets = assets.model_copy(update={"weights": RANDOM})
    model = subject.model.model_copy(update={"model": assets})
    return subject.model_copy(update={"options": options, "model": model})
