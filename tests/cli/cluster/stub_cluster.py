"""Run a cluster whose services are stubs: `stub_cluster.py FOLDER [SERVICE …]`."""

import os
import sys
from pathlib import Path

from cli.cluster.display import StatusLine
from cli.cluster.errors import ClusterError
from cli.cluster.plan import Programs
from cli.cluster.supervisor import run_cluster

STUB = str(Path(__file__).with_name("stub_service.py"))


def main() -> None:
    folder, *names = sys.argv[1:]
    services = {name: (sys.executable, "-S", STUB, name) for name in names}
    programs = Programs((sys.executable, "-S", STUB, "provision"), services)
    try:
        with StatusLine(sys.stdout) as line:
            address = os.environ.get("MLSCOPE_LISTEN", "")
            run_cluster(Path(folder), dict(os.environ), os.getpid(), line.show, programs, address)
    except ClusterError as error:
        sys.exit(f"refused: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
