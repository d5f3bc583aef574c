"""The undisturbed twin: the same stages over the same input in memory, without any process.

Whatever was done to the processes, the records that they wrote must be the twin's, key by key and
byte by byte, in every topic and partition.
"""

from collections.abc import Sequence

from tests.chaos.broker_log import SeenLog
from tests.chaos.roles import outside_topics
from tests.integration.log_copy import Line, decided
from walras_runtime.kafka.wire import barrier_value
from walras_runtime.memory.log import MemoryLog
from walras_runtime.memory.runner import MemoryRunner
from walras_runtime.stage import StageSpec

MOST_WORDS = 300


def run_twin(seen: SeenLog, specs: Sequence[StageSpec]) -> MemoryLog:
    """Return what the stages write to the input of a log, in the order of the specifications."""
    log = seen.only(outside_topics(specs))
    # Appending goes on behind what is there.
    log = MemoryLog(
        log.topics, log.entries, {place: len(held) for place, held in log.entries.items()}
    )
    for spec in specs:
        count = log.topics[spec.state_topic].partitions if spec.spread else 1
        for partition in range(count):
            MemoryRunner(spec, log, partition).advance()
    return log


def differences(seen: SeenLog, twin: MemoryLog, names: Sequence[str]) -> list[str]:
    """Return where what was written is not what the twin wrote, the first place of a partition."""
    faults = []
    for name in names:
        due = decided(twin, name)
        for partition, wanted in due.items():
            found = _lines(seen, name, partition)
            if found == wanted:
                continue
            both = zip(found, wanted, strict=False)
            place = next(
                (i for i, (a, b) in enumerate(both) if a != b), min(len(found), len(wanted))
            )
            faults.append(
                f"{name}/{partition}: {len(found)} records, the twin has {len(wanted)}; "
                f"record {place} is {_words(found, place)}, the twin's {_words(wanted, place)}"
            )
    return faults


def _lines(seen: SeenLog, name: str, partition: int) -> list[Line]:
    return [
        (e.key, barrier_value(e.barrier) if e.barrier is not None else e.payload)
        for e in seen.log.read(name, partition, 0)
    ]


def _words(lines: list[Line], place: int) -> str:
    return str(lines[place])[:MOST_WORDS] if place < len(lines) else "missing"


def barrier_faults(seen: SeenLog, names: Sequence[str], last: int) -> list[str]:
    """Return where barriers are missing, doubled, or of an older owner behind a newer one's."""
    faults = []
    for name in names:
        if seen.log.topics[name].barriers != "producer":
            continue
        for partition in seen.log.partitions(name):
            numbers, epochs = seen.barriers(name, partition), seen.epochs.get((name, partition), [])
            if numbers != list(range(last + 1)):
                odd = [n for n in range(last + 1) if numbers.count(n) != 1]
                faults.append(f"{name}/{partition}: barriers not there once: {odd}")
            if epochs != sorted(epochs):
                faults.append(f"{name}/{partition}: an older owner wrote after a newer one")
    return faults
