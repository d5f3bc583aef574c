"""A reader of quotas: asks every source, keeps a file, and lets the ladder decide."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from walras_client.disk import NOT_READABLE, keep, read_file, write_file
from walras_client.kafka_source import newest_barrier, read_market
from walras_client.ladder import (
    Aging,
    Answer,
    InsideClock,
    OutsideClock,
    Sighting,
    Source,
    answer,
    log_in_force,
)
from walras_client.redis_source import read_snapshot
from walras_runtime.clock import wall_ms


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """Where to look and how old is too old.

    Parameters
    ----------
    bootstrap, redis_url, file
        The sources; None leaves one out.
    log_id
        Which log to believe; None: the broker's, else the file's, else the only one in Redis.
    inside
        Age by barriers (services of the platform); otherwise by ``now_ms``.
    max_quota_age_ms, max_quota_age_barriers
        Older quotas do not count any more: outside, inside. The defaults are four live cycles.
    timeout_ms
        How long one source may take.
    """

    bootstrap: str | None = None
    redis_url: str | None = None
    file: Path | None = None
    log_id: str | None = None
    inside: bool = False
    max_quota_age_ms: int = 120_000
    max_quota_age_barriers: int = 24
    timeout_ms: int = 5_000


class QuotaReader:
    """Answers what a team may occupy, whatever is down.

    Each call reads ``quotas`` and ``supply`` whole; it is made for commands and for calls every
    few seconds, not for hot paths.
    """

    def __init__(self, options: ReaderOptions, *, now_ms: Callable[[], int] = wall_ms) -> None:
        self._options = options
        self._now_ms = now_ms
        self._newest_barrier = -1
        self._log_id = options.log_id
        self.file_written: bool | None = None
        """Whether the last answer's sheets reached the disk; None where there is no file."""

    async def read(self, team: str) -> Answer:
        """Return what a team may occupy, with source, epoch and age."""
        options = self._options
        sightings: list[Sighting] = []
        if options.bootstrap is not None:
            market, log_id = await read_market(options.bootstrap, timeout_ms=options.timeout_ms)
            sightings.append(market)
            if options.log_id is None and log_id is not None:
                self._log_id = log_id
        disk = Sighting(Source.DISK) if options.file is None else read_file(options.file)
        if options.redis_url is not None:
            snapshot = await self._snapshot(options.redis_url, disk)
            sightings.append(snapshot)
        if options.file is not None:
            sightings.append(disk)
            self._keep(options.file, disk, sightings)
        aging = await self._aging(sightings)
        return answer(team, sightings, aging, expected_log=self._log_id)

    async def _snapshot(self, url: str, disk: Sighting) -> Sighting:
        timeout_ms = self._options.timeout_ms
        snapshot = await read_snapshot(url, self._log_id, timeout_ms=timeout_ms)
        kept = disk.quotas or disk.floor
        if snapshot.fault == "several_logs" and kept is not None:
            return await read_snapshot(url, kept.place.log_id, timeout_ms=timeout_ms)
        return snapshot

    def _keep(self, file: Path, disk: Sighting, sightings: list[Sighting]) -> None:
        log = log_in_force(sightings, self._log_id)
        if log is None or (self._log_id is None and disk.fault == NOT_READABLE):
            # Where nothing names the log, a file that may be of another one stays as it is.
            return
        kept = keep(disk, log=log, seen=sightings)
        if (kept.quotas, kept.floor) == (None, None):
            return
        unchanged = kept == replace(disk, fault=None)
        self.file_written = True if unchanged else write_file(file, kept)

    async def _aging(self, sightings: list[Sighting]) -> Aging:
        options = self._options
        if not options.inside:
            return OutsideClock(self._now_ms(), options.max_quota_age_ms)
        newest = None
        if options.bootstrap is not None:
            newest = await newest_barrier(options.bootstrap, timeout_ms=options.timeout_ms)
        shown = [s.quotas.place.barrier for s in sightings if s.quotas is not None]
        self._newest_barrier = max([self._newest_barrier, *shown, -1 if newest is None else newest])
        return InsideClock(self._newest_barrier, options.max_quota_age_barriers)
