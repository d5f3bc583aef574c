"""Which usage records may count, and why the others do not: each judged by itself, from its bytes.

What the numbers of a source say of each other is judged in :mod:`walras.audit.source_numbers`.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern
from typing import Final

from walras.audit.audit_rules import AuditRules
from walras.audit.incomes import Accounts
from walras.audit.log_view import AuditError, Entry
from walras.audit.price_book import PriceBook
from walras.audit.rows import DAY_MS, Use
from walras.audit.steps import Clock
from walras.audit.usage_form import Said, form_code, said_by, size_code
from walras_contracts.identifiers import partition_of
from walras_contracts.registry import UndecodableError, UnknownVersionError, decode_inner
from walras_contracts.work import UsageMetered

USAGE_TYPES: Final = frozenset({UsageMetered.TYPE})
_home = lru_cache(maxsize=65_536)(partition_of)


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that is not charged: its key, the code of its fault, and what it says of itself."""

    key: str
    code: str
    step: int
    said: Said

    @staticmethod
    def of(use: Use, code: str) -> "Refused":
        """Return that a record whose form is right is not charged."""
        size = use.macc * (use.end_ms - use.start_ms)
        return Refused(use.key, code, use.arrival, Said(use.team, use.pool, size))


@dataclass(slots=True)
class Verdicts:
    """What may count, by source and in the order of the log; what does not, by offset."""

    uses: dict[str, list[Use]] = field(default_factory=lambda: defaultdict(list))
    refused: dict[int, Refused] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges usage records.

    ``accounts`` and ``book`` tell which teams, pools and markets there are.
    """

    clock: Clock
    rules: AuditRules
    accounts: Accounts
    book: PriceBook

    def judge(self, given: Iterable[tuple[int, Entry]], place: tuple[int, int]) -> Verdicts:
        """Return what becomes of the records of a partition.

        Parameters
        ----------
        given
            The records with their steps.
        place
            The partition, and how many there are.

        Raises
        ------
        AuditError
            A record is of a version that this build does not know.
        """
        verdicts = Verdicts()
        for step, entry in given:
            try:
                found = _read(entry, step)
            except UnknownVersionError as error:
                where = f"{UsageMetered.TOPIC}/{place[0]}@{entry.offset}"
                raise AuditError(f"{where}: {error}") from error
            code = found if isinstance(found, str) else self._code(found, place)
            if code is None:
                assert isinstance(found, Use)
                verdicts.uses[found.source].append(found)
            else:
                verdicts.refused[entry.offset] = Refused(entry.key, code, step, said_by(entry))
        return verdicts

    def _code(self, use: Use, place: tuple[int, int]) -> str | None:
        """Return what is wrong with a record at its step; None: nothing yet.

        Names come first: what came too late is told on an invoice, and strangers get none. What
        begins before the look-back could share time with use that billing has forgotten.
        """
        now_ms, rules = self.clock.times_ms[use.arrival], self.rules
        if _home(use.team, place[1]) != place[0]:
            return "wrong_partition"
        if not self.accounts.names_team(use.team, use.start_ms, use.arrival):
            return "unknown_team"
        if not self.accounts.names_pool(use.pool, use.start_ms, use.arrival):
            return "unknown_pool"
        is_known = self.book.knows(use.market, use.arrival) or self.accounts.names_market(
            use.market, use.arrival
        )
        if not is_known:
            return "unknown_market"
        if use.end_ms > now_ms + rules.future_tolerance_ms:
            return "future_time"
        return "rejected_late" if use.start_ms < now_ms - rules.look_back_ms else None


def _read(entry: Entry, step: int) -> Use | str:
    try:
        event = decode_inner(entry.type, entry.value or b"", USAGE_TYPES)
    except UndecodableError:
        return form_code(entry)
    assert isinstance(event, UsageMetered)
    length_ms = event.end_ms - event.start_ms
    if length_ms > DAY_MS:
        return "longer_than_a_day"
    code = size_code(event.tariff_ppm, event.quantity_macc, length_ms)
    if code is not None:
        return code
    return Use(
        source=intern(f"{event.lease}/{event.node}/{event.attempt}"),
        lease=intern(event.lease),
        node=intern(event.node),
        attempt=event.attempt,
        seq=event.seq,
        team=intern(event.team),
        pool=intern(event.pool),
        job=intern(event.job),
        market=intern(event.market),
        macc=event.quantity_macc,
        start_ms=event.start_ms,
        end_ms=event.end_ms,
        work_class=event.work_class.value,
        billable=event.billable,
        limit_micro=event.limit_micro,
        tariff_ppm=event.tariff_ppm,
        arrival=step,
        offset=entry.offset,
    )
