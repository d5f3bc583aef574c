"""Usage records made fast: of a running part only the number and the interval change.

A record is validated and serialised once per part and class; the bytes in between are kept. The
result equals the event's own payload, byte for byte.

What a lease is metered for, it runs: its processes exist throughout. How busy they are is nothing
that a simulation could measure.
"""

from typing import Final

from walras_contracts.work import UsageMetered
from walras_runtime.records import Output

_SEQ: Final = '"seq":0,'
_INTERVAL: Final = '"start_ms":0,"end_ms":1,'
_RUNNING: Final = '"running_ms":1,'


class UsageTemplate:
    """The usage of one part, without number and interval.

    Parameters
    ----------
    first
        A valid record with seq 0 and the interval [0, 1). Ids contain no quotes, so that the three
        places are found in its payload exactly once.
    """

    __slots__ = ("_head", "_key", "_middle", "_tail", "_team", "_terms")

    def __init__(self, first: UsageMetered) -> None:
        running = first.model_copy(update={"running_ms": 1, "busy_ms": None})
        self._head, rest = running.payload().decode().split(_SEQ)
        self._middle, rest = rest.split(_INTERVAL)
        self._terms, self._tail = rest.split(_RUNNING)
        self._key = first.record_key().removesuffix("0")
        self._team = first.partition_key()

    def output(self, seq: int, start_ms: int, end_ms: int) -> Output:
        """Return the record with a number and a non-empty interval."""
        payload = (
            f'{self._head}"seq":{seq},{self._middle}'
            f'"start_ms":{start_ms},"end_ms":{end_ms},{self._terms}'
            f'"running_ms":{end_ms - start_ms},{self._tail}'
        )
        return Output(
            UsageMetered.TOPIC,
            f"{self._key}{seq}",
            self._team,
            UsageMetered.TYPE,
            payload.encode(),
        )
