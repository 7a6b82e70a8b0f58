"""Says what an image has in it; it is run within a container, for the agent that may start it.

python -P -m services.agent.host.containers.within '{"builders": [], "predictors": []}'
"""

import json
import sys

from services.agent.host.announcing import announcement
from services.agent.link.allowances import Allowances
from services.agent.link.fingerprint import link_fingerprint


def main(arguments: list[str]) -> None:
    """Print one JSON object: `announcement`, and the `link` that its worker speaks."""
    limits = json.loads(arguments[0])
    described = announcement(
        "within",
        "",
        predictors=tuple(limits["predictors"]),
        allowances=Allowances(builders=tuple(limits["builders"])),
    )
    answer = {"link": link_fingerprint(), "announcement": described.model_dump(mode="json")}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1:])
