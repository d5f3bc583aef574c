"""Frames of cycles folded into the market that was cleared: for replays, archives and audits.

A frame is either the whole market or what changed since its last framed cycle, cut into parts
(:class:`walras_contracts.market.CycleFramed`). Applied in the order of the log, from a key frame
on, the parts give the auction that was cleared and what each team got.
"""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from walras_contracts.market import CycleFramed


class FrameError(Exception):
    """A frame does not follow what was folded before it."""

    retriable: ClassVar[bool] = False

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{message} [{code}]")
        self.code = code


class FoldedTeam(NamedTuple):
    """A team in a market: its bid in µcr per hour, and what it got, in macc."""

    pool: str
    bid_micro_per_hour: int
    allocated_macc: int
    opportunistic_macc: int


class FoldedJob(NamedTuple):
    """A job as it entered the auction: its size, and its limit in µcr per accelerator-hour."""

    size_macc: int
    limit_micro: int | None


@dataclass(slots=True)
class FoldedMarket:
    """One market by its frames.

    ``teams`` is by id and ``jobs`` by ``team/job``; both are what cycle ``cycle`` held as soon as
    `is_whole`.
    """

    market: str
    cycle: int | None = None
    """Cycle of the last part taken; None before the first key frame."""
    teams: dict[str, FoldedTeam] = field(default_factory=dict)
    jobs: dict[str, FoldedJob] = field(default_factory=dict)
    parts_missing: int = 0
    _next_part: int = 0
    _kind: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether a frame was taken to its last part."""
        return self.cycle is not None and self.parts_missing == 0

    def apply(self, frame: CycleFramed) -> bool:
        """Take the next part.

        Returns
        -------
        bool
            Whether it was the last of its cycle: now the market is as it was cleared.

        Raises
        ------
        FrameError
            ``foreign_frame``: it is of another market. ``no_key_frame``: changes, but nothing to
            change. ``frame_out_of_order``: its cycle or its part is not the next, or it contradicts
            the parts before it. ``unknown_row``: it removes what is not there. After a raise only a
            key frame can follow; a foreign frame changes nothing.
        """
        if frame.market != self.market:
            raise FrameError("foreign_frame", f"{frame.record_key()} is not of {self.market}")
        self._check_order(frame)
        if frame.kind == "key" and frame.part == 0:
            self.teams.clear()
            self.jobs.clear()
        self.cycle = frame.cycle
        self._kind = frame.kind
        self._next_part = frame.part + 1
        self.parts_missing = frame.parts - self._next_part
        self._remove(frame)
        sizes, limits = frame.job_sizes_macc, frame.job_limits_micro
        self.jobs.update(zip(frame.job_keys, map(FoldedJob, sizes, limits), strict=True))
        rows = map(
            FoldedTeam,
            frame.team_pools,
            frame.bids_micro_per_hour,
            frame.allocated_macc,
            frame.opportunistic_macc,
        )
        self.teams.update(zip(frame.teams, rows, strict=True))
        return self.parts_missing == 0

    def _check_order(self, frame: CycleFramed) -> None:
        name = frame.record_key()
        if frame.part == 0:
            if frame.kind == "key":
                return
            if self.cycle is None:
                raise FrameError("no_key_frame", f"{name} changes a market that is not known")
            if not self.is_whole or frame.cycle <= self.cycle:
                raise self._broken(name)
            return
        parts = self._next_part + self.parts_missing
        expected = (self.cycle, self._kind, self._next_part, parts)
        if self.is_whole or (frame.cycle, frame.kind, frame.part, frame.parts) != expected:
            raise self._broken(name)

    def _remove(self, frame: CycleFramed) -> None:
        for key in frame.removed_jobs:
            if self.jobs.pop(key, None) is None:
                self._forget()
                raise FrameError("unknown_row", f"{frame.record_key()} removes job {key}")
        for team in frame.removed_teams:
            if self.teams.pop(team, None) is None:
                self._forget()
                raise FrameError("unknown_row", f"{frame.record_key()} removes team {team}")

    def _broken(self, name: str) -> FrameError:
        after = f"{self.cycle}, with {self.parts_missing} parts missing"
        self._forget()
        return FrameError("frame_out_of_order", f"{name} came after cycle {after}")

    def _forget(self) -> None:
        """Only a key frame makes a market out of this again."""
        self.cycle = None
        self.parts_missing = 0
        self.teams.clear()
        self.jobs.clear()
