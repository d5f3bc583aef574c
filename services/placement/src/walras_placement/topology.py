"""Where devices of one type are open, by node and topology domain, and where a job fits best.

A domain is a rack or cube of a cell; nodes of a cell that name none are one domain together. What
is open on a node is counted in macc. Everything is kept sorted, so that a choice depends on what is
open and on nothing that happened before.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass, field

DomainKey = tuple[str, str]
"""Cell and domain; the domain is empty for nodes that name none."""
Rank = tuple[int, int, int, DomainKey]


@dataclass(slots=True)
class Domain:
    """Nodes of one domain with anything open: names in order, by what is open there."""

    levels: dict[int, list[str]] = field(default_factory=dict)
    open_macc: int = 0
    usable_macc: int = 0

    def copy(self) -> "Domain":
        """Return a copy that can be changed alone."""
        levels = {level: names.copy() for level, names in self.levels.items()}
        return Domain(levels, self.open_macc, self.usable_macc)

    def filled(self, need_macc: int) -> tuple[int, int] | None:
        """Return how many nodes a job would take, and what would stay open on the last of them.

        The emptiest nodes are filled up, the tightest that has room takes the rest. None: too
        little is open.
        """
        left, nodes = need_macc, 0
        tightest: int | None = None
        for level in sorted(self.levels, reverse=True):
            count = len(self.levels[level])
            if level < left:
                if tightest is not None:
                    break
                taken = min(count, (left - 1) // level)
                left -= taken * level
                nodes += taken
                if taken == count:
                    continue
            if level >= left:
                tightest = level
        return None if tightest is None else (nodes + 1, tightest - left)

    def choose(self, need_macc: int) -> list[str]:
        """Return the nodes for a job that fits, in the order of :meth:`filled`."""
        left, chosen = need_macc, []
        last: str | None = None
        for level in sorted(self.levels, reverse=True):
            names = self.levels[level]
            if level < left:
                if last is not None:
                    break
                taken = min(len(names), (left - 1) // level)
                left -= taken * level
                chosen += names[:taken]
                if taken == len(names):
                    continue
                names = names[taken:]
            if level >= left:
                last = names[0]
        return chosen if last is None else [*chosen, last]


class Places:
    """All domains of a type. A draft shares them until it changes one."""

    def __init__(self) -> None:
        self.domains: dict[DomainKey, Domain] = {}
        self.open_macc = 0
        self.usable_macc = 0
        self._order: list[tuple[int, DomainKey]] = []
        self._levels: dict[int, int] = {}
        self._own: dict[DomainKey, None] | None = None

    def draft(self) -> "Places":
        """Return what can be changed without changing this."""
        drawn = Places()
        drawn.domains = dict(self.domains)
        drawn.open_macc, drawn.usable_macc = self.open_macc, self.usable_macc
        drawn._order = self._order.copy()
        drawn._levels = dict(self._levels)
        drawn._own = {}
        return drawn

    def change(self, key: DomainKey, node: str, before_macc: int, after_macc: int) -> None:
        """Take that more or less is open on a node."""
        if before_macc == after_macc:
            return
        domain = self._changeable(key)
        old_place = (domain.open_macc, key)
        if before_macc:
            names = domain.levels[before_macc]
            del names[bisect_left(names, node)]
            if not names:
                del domain.levels[before_macc]
            self._count_level(before_macc, -1)
        if after_macc:
            insort(domain.levels.setdefault(after_macc, []), node)
            self._count_level(after_macc, 1)
        domain.open_macc += after_macc - before_macc
        self.open_macc += after_macc - before_macc
        del self._order[bisect_left(self._order, old_place)]
        insort(self._order, (domain.open_macc, key))

    def change_usable(self, key: DomainKey, change_macc: int) -> None:
        """Take that a node of a domain has more or fewer devices that may be used."""
        if not change_macc:
            return
        domain = self._changeable(key)
        domain.usable_macc += change_macc
        self.usable_macc += change_macc
        if not domain.usable_macc:
            del self.domains[key]
            del self._order[bisect_left(self._order, (domain.open_macc, key))]

    def largest_macc(self) -> int:
        """Return what the largest domain has, open or not: no gang can be larger."""
        return max((domain.usable_macc for domain in self.domains.values()), default=0)

    def tightest_node(self, need_macc: int) -> tuple[DomainKey, str] | None:
        """Return the node with the least room that is enough.

        Among equals one of the domain with the least open, so that others stay whole; then by name.
        """
        level = min((level for level in self._levels if level >= need_macc), default=None)
        if level is None:
            return None
        for _, key in self._order:
            names = self.domains[key].levels.get(level)
            if names:
                return key, names[0]
        return None

    def best_domain(self, need_macc: int) -> DomainKey | None:
        """Return the domain that a job over several nodes leaves most whole.

        That is the one in which it takes the fewest nodes, of those the one in which it leaves the
        least on a node that it does not fill, of those the one with the least open; then by name.
        """
        best: Rank | None = None
        for place in range(bisect_left(self._order, (need_macc, ("", ""))), len(self._order)):
            open_macc, key = self._order[place]
            filled = self.domains[key].filled(need_macc)
            if filled is not None and (best is None or (*filled, open_macc, key) < best):
                best = (*filled, open_macc, key)
        return None if best is None else best[3]

    def emptiest_first(self) -> list[DomainKey]:
        """Return the domains with anything open, the one with the most first."""
        ranked = sorted((-open_macc, key) for open_macc, key in self._order if open_macc)
        return [key for _, key in ranked]

    def _changeable(self, key: DomainKey) -> Domain:
        domain = self.domains.get(key)
        if domain is None:
            domain = self.domains[key] = Domain()
            insort(self._order, (0, key))
        elif self._own is not None and key not in self._own:
            domain = self.domains[key] = domain.copy()
        if self._own is not None:
            self._own[key] = None
        return domain

    def _count_level(self, level: int, change: int) -> None:
        count = self._levels.get(level, 0) + change
        if count:
            self._levels[level] = count
        else:
            del self._levels[level]
