"""Versions of the code that cannot share a process: a process each, side by side, whose blocks alternate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from advisor.measure.final import Session
from advisor.measure.final_messages import BlockDone, FinalRound, Left, Message, RoundDone


@dataclass
class Alternating:
    """The processes of one number of the final as one `Session`; `sessions` is each contestant's."""

    sessions: Mapping[str, Session]

    def ready(self) -> bool:
        """See `Session`."""
        return all(session.ready() for session in self._each)

    def round(self, request: FinalRound) -> Iterator[Message]:
        """See `Session`: each block is a request of its own to the process that has the contestant."""
        kept = False
        for place, name in enumerate(request.order):
            single = request.model_copy(update={"order": (name,)})
            for message in self.sessions[name].round(single):
                if isinstance(message, RoundDone):
                    kept |= message.kept_setup
                    continue
                if isinstance(message, BlockDone):
                    block = message.block.model_copy(update={"place": place})
                    message = message.model_copy(update={"block": block})
                yield message
                if isinstance(message, Left) and message.broken:
                    return
        yield RoundDone(round=request.round, kept_setup=kept)

    def close(self) -> None:
        """Ends them all."""
        for session in self._each:
            session.close()

    @property
    def _each(self) -> list[Session]:
        return list({id(session): session for session in self.sessions.values()}.values())
