"""What inputs and outputs are called: as the manifest calls them, where the model does not."""

from collections.abc import Sequence

from schemas.manifest import Port


def names_for(own: Sequence[str], ports: Sequence[Port]) -> list[str]:
    """Return a name for each of a model's inputs or outputs, in the model's order.

    The model's `own` names are kept when the manifest uses any of them. Otherwise the manifest's
    names stand for them in order, as far as they go.
    """
    wanted = [port.layer_name for port in ports[: len(own)]]
    if not all(wanted) or set(wanted) & set(own):
        return list(own)
    return [*wanted, *own[len(wanted) :]]
