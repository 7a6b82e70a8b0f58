"""`mlscope health NAME`: whether a service of this container or machine answers over the bus."""

import argparse
import os
import signal
from contextlib import suppress

from cli import exits
from cli.failures import Misused
from mlscope.bus.access.permissions import OPERATOR
from mlscope.health import Announced, count_silence, hear
from mlscope.settings import Settings

_SILENCES = 3


def health(arguments: argparse.Namespace) -> int:
    """Ask a service, and end one that was silent three times in a row if `--end` is given.

    With `--liveness` only a silent one has failed: no restart helps a service without its broker.
    """
    settings = Settings.read(os.environ)
    file = settings.ready_file
    if file is None:
        raise Misused("MLSCOPE_READY_FILE: expected the file that the service writes when ready")
    key = OPERATOR if arguments.service == "admission" else arguments.service
    hearing = hear(settings, key, within_s=arguments.within)
    print(f"{arguments.service}: {hearing}")
    announced = Announced.read(file)
    if arguments.end and announced and count_silence(file, hearing) >= _SILENCES:
        count_silence(file, "starting")
        print(f"{arguments.service}: killed, so that it is restarted")
        with suppress(ProcessLookupError):
            # One that hangs does not hear a softer signal.
            os.kill(announced.pid, signal.SIGKILL)
    is_good = hearing != "silent" if arguments.liveness else hearing == "answers"
    return exits.OK if is_good else exits.FAILED
