"""A stand-in for a service: answers over the bus, notes what it was given, waits to be ended.

It ends at once where the data folder holds `die-NAME`, and is deaf while that holds `deaf-NAME`.
It imports nothing of mlscope, which would take longer than all that it does.
"""

import asyncio
import json
import os
import ssl
import sys
from pathlib import Path

environ = {name: value for name, value in os.environ.items() if name.startswith("MLSCOPE_")}
name, data = sys.argv[1], Path(environ["MLSCOPE_DATA"])
if (data / f"die-{name}").exists():
    sys.exit(7)
(data / f"given-{name}.json").write_text(json.dumps(environ))
if name == "provision":
    sys.exit(0)


async def answer() -> None:
    """Answer until we are killed."""
    import nats
    from nats.aio.msg import Msg

    authority = environ.get("MLSCOPE_TLS_AUTHORITY_FILE")
    client = await nats.connect(
        environ["MLSCOPE_NATS_URL"],
        tls=ssl.create_default_context(cafile=authority) if authority else None,
        nkeys_seed=environ["MLSCOPE_NATS_SEED_FILE"],
        reconnect_time_wait=0.05,
        max_reconnect_attempts=-1,
    )

    async def asked(message: Msg) -> None:
        if not (data / f"deaf-{name}").exists():
            await message.respond(b"{}")

    await client.subscribe(f"$SRV.PING.{name}.stub", cb=asked)
    await client.flush()
    partial = data / f"ready-{name}"
    partial.write_text(json.dumps({"instance": "stub", "pid": os.getpid()}))
    partial.rename(environ["MLSCOPE_READY_FILE"])
    await asyncio.sleep(600)


asyncio.run(answer())
