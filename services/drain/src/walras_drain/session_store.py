"""The sessions that a step can reach: by id, the last one of each lease, those of a node."""

from typing import Final

from walras_drain.clock import NEVER_MS
from walras_drain.session import Session

FORGOTTEN_AFTER_MS: Final = 3_600_000
"""So long after its end a session is forgotten, and its record ended."""


class SessionStore:
    """Sessions by id.

    One that has ended stays for an hour, and while a command of it stands. The last one of a lease
    that still holds devices stays as well: it says whether an order was served, and when the lease
    may be asked to leave again.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._open: dict[str, None] = {}
        self._ended: dict[str, None] = {}
        self._last_of_lease: dict[str, str] = {}
        self._by_node: dict[str, dict[str, None]] = {}
        self._forget_from_ms = NEVER_MS

    def get(self, name: str) -> Session | None:
        """Return a session."""
        return self._sessions.get(name)

    def put(self, session: Session) -> None:
        """Set a session; the one of its lease that was opened last is the lease's last one."""
        name = session.session
        if name not in self._sessions:
            last = self.of_lease(session.lease)
            if last is None or _order(last) < _order(session):
                self._last_of_lease[session.lease] = name
                self._look_again_at(last)
            for part in session.parts:
                self._by_node.setdefault(part.node, {})[name] = None
        self._sessions[name] = session
        held, other = (self._ended, self._open) if session.is_ended else (self._open, self._ended)
        held[name] = None
        other.pop(name, None)
        self._look_again_at(session)

    def of_lease(self, lease: str) -> Session | None:
        """Return the last session of a lease, open or ended."""
        name = self._last_of_lease.get(lease)
        return None if name is None else self._sessions[name]

    def open_of_lease(self, lease: str) -> Session | None:
        """Return the open session of a lease."""
        session = self.of_lease(lease)
        return None if session is None or session.is_ended else session

    def all_of_part(self, lease: str, node: str) -> list[Session]:
        """Return the sessions of a lease with a part on a node, oldest first."""
        names = self._by_node.get(node, {})
        found = [s for s in map(self._sessions.__getitem__, names) if s.lease == lease]
        return sorted(found, key=_order)

    def open_on_node(self, node: str) -> list[Session]:
        """Return the open sessions with a part on a node, by id."""
        names = sorted(name for name in self._by_node.get(node, {}) if name in self._open)
        return [self._sessions[name] for name in names]

    def open_sessions(self) -> list[Session]:
        """Return the open sessions, oldest first."""
        return sorted((self._sessions[name] for name in self._open), key=_order)

    def take_forgotten(self, now_ms: int) -> list[Session]:
        """Forget the sessions that ended long ago and that nothing needs; return them."""
        if now_ms < self._forget_from_ms:
            return []
        ended = [self._sessions[name] for name in sorted(self._ended)]
        free = [session for session in ended if not self._is_asked_for(session)]
        forgotten = [session for session in free if _forget_ms(session) <= now_ms]
        for session in forgotten:
            self._remove(session.session)
        left = (end_ms for end_ms in map(_forget_ms, free) if end_ms > now_ms)
        self._forget_from_ms = min(left, default=NEVER_MS)
        return forgotten

    def _is_asked_for(self, session: Session) -> bool:
        """Whether it is the last session of a lease that still holds devices."""
        is_last = self._last_of_lease[session.lease] == session.session
        return is_last and not all(part.is_closed for part in session.parts)

    def _look_again_at(self, session: Session | None) -> None:
        if session is not None:
            self._forget_from_ms = min(self._forget_from_ms, _forget_ms(session))

    def _remove(self, name: str) -> None:
        session = self._sessions.pop(name)
        del self._ended[name]
        for part in session.parts:
            held = self._by_node[part.node]
            held.pop(name)
            if not held:
                del self._by_node[part.node]
        if self._last_of_lease[session.lease] == name:
            left = self.all_of_part(session.lease, session.parts[0].node)
            if left:
                self._last_of_lease[session.lease] = left[-1].session
            else:
                del self._last_of_lease[session.lease]


def _order(session: Session) -> tuple[int, str, int]:
    return session.opened_ms, session.lease, session.number


def _forget_ms(session: Session) -> int:
    if session.ended_ms is None or any(part.command is not None for part in session.parts):
        return NEVER_MS
    return session.ended_ms + FORGOTTEN_AFTER_MS
