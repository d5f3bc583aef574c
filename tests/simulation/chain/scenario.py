"""What the outside does to the chain: every scenario is a function of its seed."""

import random
from dataclasses import dataclass

from tests.simulation.chain.world import MINUTE_MS, START_MS, World, decoded
from walras_contracts.accounts import AccountsChanged, PoolDocument, TeamAccount
from walras_contracts.capacity import NodePublished, NodeState
from walras_contracts.demand import Drainability, JobQueued
from walras_contracts.market import MarketQuota, PoolPrice, PricePublished, QuotaGranted
from walras_contracts.work import JobState, JobStatusChanged
from walras_runtime.records import Output, emit, tombstone

TEAMS = {"t1": "p1", "t2": "p1", "t3": "p2", "t4": "p2"}
INCOMES = {"t1": 1, "t2": 2, "t3": 3, "t4": 0}
WEIGHTS = {"p1": 7_000_001, "p2": 5_000_003}
BOUNDARY_MINUTES = 5
KINDS = ("a", "b")


@dataclass(frozen=True)
class Membership:
    """The teams of a pool by the document that counts from a minute on."""

    minute: int
    pool: str
    teams: frozenset[str]


class Scenario:
    """Nodes, jobs, cancels, quotas, prices and moves of teams, step by step."""

    def __init__(self, seed: int, world: World) -> None:
        self.random = random.Random(seed)
        self.world = world
        self.jobs: dict[str, JobQueued] = {}
        self.cancelled: dict[str, None] = {}
        self.nodes: dict[str, NodePublished] = {}
        self.quotas: dict[tuple[str, str], MarketQuota] = {}
        self.memberships: list[Membership] = []
        self.moves: dict[str, list[tuple[int, str]]] = {t: [(0, p)] for t, p in TEAMS.items()}
        """Per team from which minute on its jobs are of which pool."""
        self._versions: dict[str, int] = {}
        self._ended: dict[int, int] = {}
        self._position = 0

    def pool_at(self, team: str, market_time_ms: int) -> str:
        """Return the pool whose price a team pays at a time."""
        minutes = (market_time_ms - START_MS) / MINUTE_MS
        return [pool for minute, pool in self.moves[team] if minute <= minutes][-1]

    def outputs(self, step: int) -> list[Output]:
        """Return what the outside writes before barrier ``step``."""
        if step == 0:
            return [
                *(self._document(0, pool, self._members(pool)) for pool in sorted(WEIGHTS)),
                *self._all_nodes(),
                *self._market(step),
                *self._jobs(step, 4),
            ]
        ends = [
            tombstone(JobQueued, f"{event.team}/{event.job}", event.team)
            for event in decoded(self.world.events("job.status", self._ended))
            if isinstance(event, JobStatusChanged)
            and event.state in (JobState.FINISHED, JobState.CANCELLED)
        ]
        for output in ends:
            self.jobs.pop(output.key, None)
        # Jobs that move do so first: whatever else changes them in this step keeps their new pool.
        rehomed = self._rehome(step)
        changes = self._cancel() if self.random.random() < 0.2 else []
        nodes = self._change_node() if self.random.random() < 0.1 else []
        moves = self._move(step) if self.random.random() < 0.15 else []
        return [
            *ends,
            *rehomed,
            *changes,
            *nodes,
            *moves,
            *self._market(step),
            *self._jobs(step, self.random.randrange(3)),
        ]

    def _members(self, pool: str) -> frozenset[str]:
        """Teams of a pool by its latest document; at first those of :data:`TEAMS`."""
        latest = [m.teams for m in self.memberships if m.pool == pool]
        return latest[-1] if latest else frozenset(t for t, p in TEAMS.items() if p == pool)

    def _document(self, minute: int, pool: str, members: frozenset[str]) -> Output:
        self.memberships.append(Membership(minute, pool, members))
        self._versions[pool] = self._versions.get(pool, 0) + 1
        teams = tuple(
            TeamAccount(team=t, income_local_per_hour=INCOMES[t]) for t in sorted(members)
        )
        document = PoolDocument(pool=pool, weight_micro_per_hour=WEIGHTS[pool], teams=teams)
        effective_ms = START_MS + minute * MINUTE_MS
        return emit(
            AccountsChanged(
                version=self._versions[pool], effective_ms=effective_ms, document=document
            )
        )

    def _move(self, step: int) -> list[Output]:
        """Let a team change its pool at the next boundary, or be in none until the one after."""
        leaves = (step // BOUNDARY_MINUTES + 1) * BOUNDARY_MINUTES
        if any(m.minute >= leaves for m in self.memberships):
            return []
        team = self.random.choice(sorted(TEAMS))
        old = self.moves[team][-1][1]
        (new,) = WEIGHTS.keys() - {old}
        joins = leaves + self.random.choice((0, BOUNDARY_MINUTES))
        self.moves[team].append((leaves, new))
        return [
            self._document(leaves, old, self._members(old) - {team}),
            self._document(joins, new, self._members(new) | {team}),
        ]

    def _rehome(self, step: int) -> list[Output]:
        """Write the jobs of a team that is in another pool from this step on, as intake does."""
        found = []
        for team in sorted(TEAMS):
            if all(minute != step for minute, _ in self.moves[team]):
                continue
            pool = self.pool_at(team, START_MS + step * MINUTE_MS)
            for key in sorted(key for key, job in self.jobs.items() if job.team == team):
                self.jobs[key] = self.jobs[key].model_copy(update={"pool": pool})
                found.append(emit(self.jobs[key]))
        return found

    def _all_nodes(self) -> list[Output]:
        small = self.random.choice((1000, 500))
        for index in range(self.random.randint(2, 4)):
            name, kind = f"n{index}", KINDS[index % 2]
            self.nodes[name] = NodePublished(
                node=name,
                type=kind,
                cell="c",
                devices=self.random.randint(1, 4),
                macc_per_device=1000 if kind == "a" else small,
                owner_pool=None,
                withheld_devices=(),
                state=NodeState.ACTIVE,
            )
        return [emit(node) for node in self.nodes.values()]

    def _change_node(self) -> list[Output]:
        name = self.random.choice(sorted(self.nodes))
        node = self.nodes[name]
        withheld = tuple(d for d in range(node.devices) if self.random.random() < 0.3)
        change: dict[str, object] = {"withheld_devices": withheld}
        if self.random.random() < 0.4:
            change = {"type": self.random.choice(KINDS)}
        elif self.random.random() < 0.3:
            change = {"macc_per_device": self.random.choice((500, 1000))}
        state = self.random.choice((NodeState.ACTIVE, *NodeState))
        self.nodes[name] = node.model_copy(update={**change, "state": state})
        return [emit(self.nodes[name])]

    def _market(self, step: int) -> list[Output]:
        found: list[Output] = []
        now_ms = START_MS + step * MINUTE_MS
        prices: dict[tuple[str, str], int] = {}
        for market in KINDS:
            if step and self.random.random() < 0.3:
                continue
            for pool in WEIGHTS:
                prices[market, pool] = self.random.choice((0, 100_003, 200_001, 700_000))
            pools = tuple(
                PoolPrice(
                    pool=pool,
                    price_micro=prices[market, pool],
                    weight_micro_per_hour=WEIGHTS[pool],
                    local_income_per_hour=3,
                )
                for pool in sorted(WEIGHTS)
            )
            found.append(
                emit(
                    PricePublished(
                        market=market,
                        cycle=step,
                        market_time_ms=now_ms,
                        reference_price_micro=max(prices[market, pool] for pool in WEIGHTS),
                        pools=pools,
                    )
                )
            )
        for team in TEAMS:
            if step and self.random.random() < 0.5:
                continue
            pool = self.pool_at(team, now_ms)
            quotas = []
            for market in KINDS:
                quota = MarketQuota(
                    market=market,
                    allocated_macc=1000 * self.random.choice((0, 0, 1, 2, 4)),
                    opportunistic_macc=1000 * self.random.choice((0, 0, 1, 3)),
                    price_micro=prices.get((market, pool), 100_003),
                )
                self.quotas[team, market] = quota
                quotas.append(quota)
            found.append(
                emit(
                    QuotaGranted(
                        team=team,
                        pool=pool,
                        cycle=step,
                        market_time_ms=now_ms,
                        markets=tuple(quotas),
                    )
                )
            )
        return found

    def _jobs(self, step: int, count: int) -> list[Output]:
        found = []
        now_ms = START_MS + step * MINUTE_MS
        for _ in range(count):
            team = self.random.choice(sorted(TEAMS))
            self._position += 1
            job = JobQueued(
                team=team,
                pool=self.pool_at(team, now_ms),
                job=f"j{self._position}",
                types=self.random.choice((("a",), ("b",), ("a", "b"), ("b", "zz", "a"))),
                size_macc=self.random.choice((1000, 2000, 3000, 5000, 1, 1, 500, 1500)),
                gang=True,
                limit_micro=self.random.choice((None, None, 0, 150_000, 300_000)),
                expected_run_ms=self.random.choice((None, 0, 1, 59_999, 60_000, 60_001, 345_678)),
                minimum_run_ms=self.random.choice((0, 120_000)),
                drainability=self.random.choice(list(Drainability)),
                deadline_ms=None,
                submitted_ms=max(0, now_ms - self.random.randrange(60_000)),
                position=self._position,
                revision=0,
                cancelled=False,
            )
            self.jobs[job.record_key()] = job
            found.append(emit(job))
        return found

    def _cancel(self) -> list[Output]:
        living = sorted(key for key in self.jobs if key not in self.cancelled)
        if not living:
            return []
        key = self.random.choice(living)
        self.cancelled[key] = None
        self.jobs[key] = self.jobs[key].model_copy(update={"cancelled": True})
        return [emit(self.jobs[key])]
