"""Where cycles are replayed from: an archive, or the log of a broker."""

from collections.abc import Collection, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Final

from walras.archive.directory import Archive, Progress
from walras.archive.log_source import cycles_of_log
from walras.archive.recorded_cycle import ArchiveError, RecordedCycle

KAFKA_PREFIX: Final = "kafka:"


def cycles_of(
    source: str, markets: Collection[str], within: range, progress: Progress
) -> Iterator[RecordedCycle]:
    """Yield what is needed to replay cycles, of each market in the order of their numbers.

    Parameters
    ----------
    source
        ``kafka:HOST:PORT``, or the directory of an archive.
    markets
        Those to read; none: all.
    within
        Cycles to replay. Earlier ones are yielded to fold them, and the next one, for its time.
    progress
        Told how much of the source was read, of how much.

    Raises
    ------
    ArchiveError
        The source cannot be read, or has no such market.
    """
    if source.startswith(KAFKA_PREFIX):
        cycles = cycles_of_log(source.removeprefix(KAFKA_PREFIX), progress)
        # A cycle's markets lie together: what is behind the last cycle need not be read.
        wanted = takewhile(lambda cycle: cycle.cycle <= within.stop, cycles)
        return (cycle for cycle in wanted if not markets or cycle.market in markets)
    archive = Archive(Path(source))
    held = archive.markets()
    if not held:
        raise ArchiveError(f"{source}: no archive of cycles is there")
    if unknown := sorted(set(markets) - set(held)):
        raise ArchiveError(f"{source}: no market {unknown[0]}: there are {', '.join(held)}")
    return archive.cycles(markets or held, progress, within)
