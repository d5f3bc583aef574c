"""Follows a node until what was stated about it has come to its end."""

from walras.billing_log.window import moment
from walras.drain.node_statement import STATE_OF, Goal, NodeNow
from walras.drain.progress import End, Outcome
from walras.jobs.job_views import ENDED_SESSIONS
from walras.jobs_log.items import Item, Watch
from walras.nodes.words import leases_words
from walras_contracts.capacity import NodeObserved, NodePublished
from walras_contracts.drains import DrainSessionChanged, NodeDrainChanged, NodeDrainState


def watches_of(node: str) -> tuple[Watch, ...]:
    """Return what tells what becomes of a statement."""
    return (
        Watch(NodePublished.TOPIC, (NodePublished,), node),
        Watch(NodeDrainChanged.TOPIC, (NodeDrainChanged, DrainSessionChanged)),
    )


class NodeWatch:
    """Takes what capacity and drain say of a node.

    Parameters
    ----------
    now
        The node before.
    wanted
        What was stated about it.
    goal
        What was asked of it.
    counts_from_ms
        From when the statement counts; None: at once.
    """

    def __init__(
        self, now: NodeNow, wanted: NodeObserved, goal: Goal, counts_from_ms: int | None
    ) -> None:
        self._node = wanted.node
        self._wanted = wanted
        self._goal = goal
        self._counts_from_ms = counts_from_ms
        self._fenced_before_ms = None if now.published is None else now.published.fenced_ms
        self._published = now.published
        self._drain = now.drain
        self._sessions: dict[str, DrainSessionChanged] = {}
        self._has_begun = self._is_in_force

    @property
    def published(self) -> NodePublished | None:
        """The node as capacity tells it."""
        return self._published

    @property
    def drain(self) -> NodeDrainChanged | None:
        """How far its emptying is."""
        return self._drain

    def take(self, item: Item) -> None:
        """Take a record of any of the topics."""
        event = item.event
        if isinstance(event, NodePublished) and event.node == self._node:
            self._published = event
            self._has_begun = self._has_begun or self._is_in_force
        elif isinstance(event, NodeDrainChanged) and event.node == self._node:
            self._drain = event
        elif isinstance(event, DrainSessionChanged):
            if self._node in event.nodes:
                self._sessions[event.session] = event
        elif item.is_tombstone and item.key == f"node/{self._node}":
            self._drain = None
        elif item.is_tombstone:
            self._sessions.pop(item.key, None)

    def words(self) -> str:
        """Say how far it is, naming who is still there and what it waits for."""
        if not self._has_begun:
            since = "with capacity's next step"
            if self._counts_from_ms is not None:
                since = f"from the full hour, {moment(self._counts_from_ms)}, on"
            return f"{self._node}: {self._wanted.state.value} counts {since}"
        if self._goal is not Goal.DRAIN or self._drain is None:
            return f"{self._node}: {self._wanted.state.value}"
        drain = self._drain
        until = moment(drain.deadline_ms)
        left = leases_words(drain.leases)
        words = [f"{self._node}: {drain.state.value}, {left} left, ends by {until}"]
        if drain.state is NodeDrainState.BLOCKED:
            words.append("nobody is asked to leave while one cannot (--urgent asks all)")
        if drain.blockers:
            words.append(f"waits for {'; '.join(drain.blockers)}")
        for session in self._open_sessions():
            blockers = "; ".join(session.blockers)
            words.append(
                f"{session.team}/{session.job} {session.state.value}"
                + (f" ({blockers})" if blockers else "")
            )
        return ", ".join(words)

    def end(self) -> End | None:
        """Return how it ended."""
        published = self._published
        if published is None or not self._has_begun:
            return None
        if self._goal is not Goal.KEEP and published.state is not self._wanted.state:
            words = f"{self._node}: somebody else stated since that it is {published.state.value}"
            return End(Outcome.OTHERWISE, words)
        if self._wanted.fenced and not self._is_fenced:
            return None
        if self._goal is Goal.DRAIN:
            return self._end_of_drain()
        fenced = ", fenced" if self._wanted.fenced else ""
        return End(Outcome.DONE, f"{self._node}: {published.state.value}{fenced}")

    @property
    def _is_in_force(self) -> bool:
        published = self._published
        if published is None:
            return False
        if self._goal is Goal.KEEP:
            return True
        if self._goal is Goal.DRAIN and self._wanted.urgent and not published.urgent:
            return False
        return published.state is STATE_OF[self._goal]

    @property
    def _is_fenced(self) -> bool:
        fenced_ms = None if self._published is None else self._published.fenced_ms
        return fenced_ms is not None and (
            fenced_ms >= self._wanted.observed_ms or fenced_ms != self._fenced_before_ms
        )

    def _end_of_drain(self) -> End | None:
        drain = self._drain
        if drain is None:
            return None
        if drain.state is NodeDrainState.DRAINED:
            words = f"{self._node}: drained; `walras drain {self._node} --off` switches it off"
            return End(Outcome.DONE, words)
        if drain.state is NodeDrainState.STUCK:
            words = (
                f"{self._node}: beyond its deadline of {moment(drain.deadline_ms)}, it goes on; "
                f"waits for {'; '.join(drain.blockers) or 'nobody that is named'}"
            )
            return End(Outcome.OTHERWISE, words)
        return None

    def _open_sessions(self) -> list[DrainSessionChanged]:
        found = [each for each in self._sessions.values() if each.state not in ENDED_SESSIONS]
        return sorted(found, key=lambda each: (each.opened_ms, each.session))
