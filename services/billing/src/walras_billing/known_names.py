"""Teams, pools and markets that billing has heard of: use of others is a mistake, or worse."""

from walras_contracts.accounts import AccountsChanged, MarketDocument, PoolDocument


class KnownNames:
    """Pools and teams, from when a document first names them, and markets with a document.

    A team that left its pool stays known: what it still runs is charged, and while it moves it may
    be in no pool for a while.
    """

    def __init__(self) -> None:
        self._teams: dict[str, int] = {}
        self._pools: dict[str, int] = {}
        self._markets: set[str] = set()

    def put(self, change: AccountsChanged) -> None:
        """Take a version of a document; again, or in another order, is the same."""
        document = change.document
        if isinstance(document, MarketDocument):
            self._markets.add(document.market)
        elif isinstance(document, PoolDocument):
            _note(self._pools, document.pool, change.effective_ms)
            for account in document.teams:
                _note(self._teams, account.team, change.effective_ms)

    def has_team(self, team: str, at_ms: int) -> bool:
        """Whether a pool's document that counted at a time or before it names a team."""
        return team in self._teams and self._teams[team] <= at_ms

    def has_pool(self, pool: str, at_ms: int) -> bool:
        """Whether a document of a pool counted at a time or before it."""
        return pool in self._pools and self._pools[pool] <= at_ms

    def has_market(self, market: str) -> bool:
        """Whether a market has a document, in effect or not."""
        return market in self._markets


def _note(since_ms: dict[str, int], name: str, effective_ms: int) -> None:
    since_ms[name] = min(since_ms.get(name, effective_ms), effective_ms)
