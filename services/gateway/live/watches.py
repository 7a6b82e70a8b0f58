"""Live spans for NATS clients: an evaluation's events on subjects of its own, while it is watched.

A client sends `watch` and gets the subject; events are relayed for `LASTS_S` and as long as the
request is repeated. Nothing is stored, and the client needs no right on the log. Every message
names all lanes and names that it uses, since subscribers come and go.
"""

import asyncio
import logging

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from mlscope.bus.records import ReceivedCommand
from mlscope.client.errors import ClientError
from mlscope.tasks import end_tasks
from schemas.encoding.codec import decode_body, encode_body, is_json
from schemas.encoding.errors import MalformedMessage
from schemas.message import Message
from schemas.people import Asker
from schemas.request import Refused
from schemas.subjects import asker_of, watch_subject
from schemas.trace import Watch, Watching
from services.gateway.access.personal_bus import as_asked_by
from services.gateway.bus_requests import status_of
from services.gateway.errors import TooManyViewers
from services.gateway.live.events import Event, end_of
from services.gateway.live.feeds import Feed, Feeds
from services.gateway.live.spans import SpanBatch
from services.gateway.live.viewer import Viewer
from services.gateway.responses import refused_by

_log = logging.getLogger(__name__)

LASTS_S = 30.0
_WAIT_S = 0.5
_RELAYED = ("gap", "progress", "end")


class Watches:
    """The evaluations that NATS clients watch, each relayed by one task."""

    def __init__(self, bus: Bus, feeds: Feeds, *, lasts_s: float = LASTS_S) -> None:
        """Relay events of `feeds` on `bus` for `lasts_s` after each request."""
        self._bus = bus
        self._feeds = feeds
        self._lasts_s = lasts_s
        self._until_s: dict[str, float] = {}
        self._relaying: dict[str, asyncio.Task[None]] = {}
        #: by evaluation, what is done once its relay follows the log, or was refused
        self._following: dict[str, asyncio.Future[None]] = {}

    async def answer(self, command: ReceivedCommand) -> bytes:
        """Answer `watch` with the subject of an evaluation, or a refusal."""
        answer: Message
        try:
            evaluation = decode_body(Watch, command.body).evaluation
            asker = asker_of(command.subject)
            await status_of(as_asked_by(asker, self._bus), evaluation)
            self._until_s[evaluation] = asyncio.get_running_loop().time() + self._lasts_s
            if evaluation not in self._relaying:
                self._following[evaluation] = asyncio.get_running_loop().create_future()
                self._relaying[evaluation] = asyncio.create_task(self._relay(evaluation, asker))
            await asyncio.shield(self._following[evaluation])
            subject = watch_subject(evaluation, "*")
            answer = Watching(evaluation=evaluation, subject=subject, lasts_s=self._lasts_s)
        except (ClientError, MalformedMessage) as error:
            answer = refused_by(error)
        except TooManyViewers as error:
            answer = Refused(error="busy", message=str(error))
        return encode_body(answer, json_text=is_json(command.body))

    async def close(self) -> None:
        """End all relaying."""
        await end_tasks(self._relaying.values())

    async def _relay(self, evaluation: str, asker: Asker) -> None:
        """Relay an evaluation while it is asked for, as a stream of who asked first."""
        following = self._following[evaluation]
        viewing = self._feeds.viewing(evaluation, after=0, wants_spans=True, asker=asker)
        try:
            async with viewing as (feed, viewer):
                while not (feed.scene.caught_up or feed.is_broken):
                    await viewer.wait(_WAIT_S)
                following.set_result(None)
                await self._publish_all(evaluation, feed, viewer)
        except TooManyViewers as error:
            following.set_exception(error)
        except BusError as error:
            _log.warning("no longer relayed: %s", error)
        finally:
            if not following.done():
                following.set_result(None)
            del self._following[evaluation]
            del self._relaying[evaluation], self._until_s[evaluation]

    async def _publish_all(self, evaluation: str, feed: Feed, viewer: Viewer) -> None:
        """Publish what a `viewer` of the `feed` gets, until that ends or nobody asks any more."""
        loop = asyncio.get_running_loop()
        is_over = False
        while not is_over and loop.time() < self._until_s[evaluation]:
            await viewer.wait(_WAIT_S)
            is_over = feed.is_over or feed.is_broken or self._feeds.is_closing
            for event in viewer.take():
                await self._publish(evaluation, feed, event)
        if feed.is_over:
            await self._publish(evaluation, feed, end_of(feed.scene.status))

    async def _publish(self, evaluation: str, feed: Feed, event: Event | SpanBatch) -> None:
        """Publish an event; the introductions of viewers, and facts of the log, are left out."""
        if isinstance(event, SpanBatch):
            if feed.relay is not None:
                body = feed.relay.whole(event)
                await self._bus.publish_live(watch_subject(evaluation, event.name), body)
        elif event.name in _RELAYED:
            await self._bus.publish_live(watch_subject(evaluation, event.name), event.data.encode())
