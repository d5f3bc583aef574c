"""What holds of a part whatever happens to it, in whatever order."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from services.node_agent.tests.lives import DEADLINE_MS, RULES, Walk, command
from walras_contracts.demand import Drainability
from walras_contracts.drains import DrainCommand
from walras_contracts.work import DrainState, LeaseState
from walras_node_agent.part_dump import dump_life, parse_life
from walras_node_agent.part_life import Happened, Life, TellDrain, TellLease
from walras_node_agent.part_table import Effect, PartEvent, PartState
from walras_node_agent.parts import advance, due, of_command

EVENTS = [
    *(PartEvent.MAY_START, PartEvent.STARTED, PartEvent.START_FAILED, PartEvent.EXITED),
    *(PartEvent.GROUP_GONE, PartEvent.HOOK_ACCEPTED, PartEvent.SAVED, PartEvent.DEVICE_HELD),
    *(PartEvent.DEVICE_FREE, PartEvent.LEASE_ENDED, PartEvent.SESSION_ENDED, PartEvent.FOUND),
    *(PartEvent.LOST, PartEvent.PROGRESS_DUE),
]
COMMANDS = [
    *((said, "this") for said in DrainCommand),
    *((DrainCommand.DRAIN, "next"), (DrainCommand.CANCEL, "next")),
    *((DrainCommand.CANCEL, "last"), (DrainCommand.CONFIRM, "last")),
]
"""A drain that is over never comes back; what was said of it late may."""
WITHOUT_PROCESSES = {PartState.ACCEPTED, PartState.FREED, PartState.REFUSED}
moves = st.one_of(
    st.tuples(st.sampled_from(EVENTS), st.sampled_from(["this", "last"]), st.sampled_from([0, 1])),
    st.builds(lambda said: (*said, 0), st.sampled_from(COMMANDS)),
    st.tuples(st.just("wait"), st.just(""), st.integers(0, 70_000)),
)


@dataclass
class Watch:
    """Judges every step of a part by what it was told and what it did before."""

    walk: Walk
    run: bool = False
    """Whether the group was started and is not known to be gone."""
    freed: int = 0
    reads: int = 0
    accepted_cancel: bool = False
    """Whether its last drain was cancelled, and nothing that may end it has come since."""
    over: set[str] = field(default_factory=set)

    def step(self, happened: Happened) -> None:
        before = self.walk.life
        if before is None:
            return
        deeds = self.walk.happens(happened)
        self._facts(happened.event, before.state)
        for deed in deeds:
            if isinstance(deed, TellLease) and deed.state is LeaseState.FREED:
                assert not self.run, "freed while something of it ran"
                assert self.reads >= 2, "freed without two reads in a row"
                self.freed += 1
                assert self.freed == 1, "freed twice"
            elif deed in {Effect.TERMINATE, Effect.KILL}:
                assert not self.accepted_cancel, "an accepted cancel was followed by a kill"
            elif isinstance(deed, TellDrain):
                self._drain(deed)
        life = self.walk.life
        if life is not None:
            assert parse_life(dump_life(life)) == life

    def _facts(self, event: PartEvent, before: PartState) -> None:
        started = before is PartState.STARTING and event is PartEvent.STARTED
        if started or (event is PartEvent.FOUND and before not in WITHOUT_PROCESSES):
            self.run = True
        if event in {PartEvent.GROUP_GONE, PartEvent.LOST, PartEvent.START_FAILED}:
            self.run = False
        if event is PartEvent.DEVICE_FREE:
            self.reads += 1
        elif event in {PartEvent.DEVICE_HELD, PartEvent.FOUND}:
            self.reads = 0
        if event in {
            *(PartEvent.DRAIN, PartEvent.DRAIN_UNSAVED, PartEvent.RESUME, PartEvent.RESUME_SAVED),
            *(PartEvent.EXITED, PartEvent.LEASE_ENDED, PartEvent.FOUND, PartEvent.CANCEL_GANG),
            *(PartEvent.GROUP_GONE, PartEvent.LOST),
        }:
            self.accepted_cancel = False

    def _drain(self, told: TellDrain) -> None:
        if told.state is DrainState.CANCELLED and self.walk.life is not None:
            self.accepted_cancel = self.walk.stands(PartState.RUNNING)
        if told.session in self.over:
            assert told.state in {DrainState.CANCELLED, DrainState.FREED, DrainState.FAILED}, (
                f"{told} after its end"
            )
        if told.state in {DrainState.FREED, DrainState.FAILED, DrainState.CANCELLED}:
            self.over.add(told.session)


def play(walk: Walk, steps: list[tuple[object, str, int]]) -> Watch:
    watch = Watch(walk)
    current = 1
    for kind, which, number in steps:
        if walk.life is None:
            break
        current += which == "next"
        session = f"s{max(1, current - 1) if which == 'last' else current}"
        if isinstance(kind, PartEvent):
            watch.step(Happened(kind, session=session, exit_code=number))
        elif isinstance(kind, DrainCommand):
            if which == "last" and not walk.life.draining:
                continue  # of a lease, the last command is read: none of an older drain
            happened = of_command(walk.life, command(kind, session))
            if happened is not None:
                watch.step(happened)
        else:
            until = walk.now_ms + number
            while walk.life is not None:
                runs_out = due(walk.life)
                if runs_out is None or runs_out[0] > until:
                    break
                walk.now_ms = max(walk.now_ms, runs_out[0])
                watch.step(Happened(runs_out[1]))
            walk.now_ms = until
    return watch


@given(
    gang=st.booleans(),
    drainability=st.sampled_from(Drainability),
    steps=st.lists(moves, max_size=40),
)
def test_nothing_is_freed_twice_or_while_it_runs_and_no_accepted_cancel_kills(
    gang: bool, drainability: Drainability, steps: list[tuple[object, str, int]]
) -> None:
    play(Walk(gang=gang, drainability=drainability), steps)


@given(
    gang=st.booleans(),
    drainability=st.sampled_from(Drainability),
    before=st.lists(moves, max_size=15),
    reads=st.lists(st.booleans(), min_size=2, max_size=4),
    ends=st.booleans(),
)
def test_a_drain_that_nobody_cancels_ends_by_its_deadline_whatever_the_job_does(
    gang: bool,
    drainability: Drainability,
    before: list[tuple[object, str, int]],
    reads: list[bool],
    ends: bool,
) -> None:
    walk = Walk(gang=gang, drainability=drainability)
    watch = play(walk, before)
    if walk.life is None:
        return
    if any(map(walk.stands, (PartState.ACCEPTED, PartState.STARTING))):
        watch.step(Happened(PartEvent.MAY_START))
        watch.step(Happened(PartEvent.STARTED))
    if walk.life is None:
        return
    happened = of_command(walk.life, command(session="s99"))
    assert happened is not None
    watch.step(happened)
    given_ms = walk.now_ms
    if ends:
        watch.step(Happened(PartEvent.GROUP_GONE, exit_code=0))
    for free in reads:
        watch.step(Happened(PartEvent.DEVICE_FREE if free else PartEvent.DEVICE_HELD))
    play_on(watch, given_ms + DEADLINE_MS)

    assert "s99" in watch.over
    after = watch.walk.life
    ended = {PartState.FREED, PartState.STUCK, PartState.REFUSED}
    assert after is None or after.state in ended


def play_on(watch: Watch, until_ms: int) -> None:
    walk = watch.walk
    while walk.life is not None:
        runs_out = due(walk.life)
        if runs_out is None or runs_out[0] > until_ms:
            break
        walk.now_ms = max(walk.now_ms, runs_out[0])
        watch.step(Happened(runs_out[1]))


@given(
    gang=st.booleans(),
    drainability=st.sampled_from(Drainability),
    steps=st.lists(moves, max_size=30),
)
def test_an_agent_that_comes_back_at_any_time_and_finds_everything_changes_no_state(
    gang: bool, drainability: Drainability, steps: list[tuple[object, str, int]]
) -> None:
    walk = Walk(gang=gang, drainability=drainability)
    play(walk, steps)
    life = walk.life
    if life is None or life.state in {PartState.STARTING, PartState.VERIFYING} or life.group_gone:
        return
    after, deeds = advance(life, Happened(PartEvent.FOUND), walk.now_ms, RULES)

    assert isinstance(after, Life)
    assert after == life
    assert not any(isinstance(deed, TellDrain | TellLease) for deed in deeds)
