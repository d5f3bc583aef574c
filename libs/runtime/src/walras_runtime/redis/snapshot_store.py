"""One stamped value in Redis, replaced by compare-and-set in one script.

Keys are ``<namespace>:<log id>:<name>``: another log with the same Redis starts afresh. The set
``<namespace>:logs`` names the logs whose values are there.
"""

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from importlib.resources import files
from typing import Any, Final

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from walras_runtime.redis.versioned import (
    RESERVED_PREFIX,
    Outcome,
    Presence,
    Stamp,
    StoreCorruptError,
    StoreUnavailableError,
    Versioned,
    WriteResult,
    presence_of,
)

NAMESPACE: Final = "walras"
STAMP_FIELDS: Final = ("~epoch", "~number", "~step")
STAMP_NUMBER: Final = re.compile(rb"-?[0-9]{1,16}")
_SCRIPT: Final = files("walras_runtime.redis").joinpath("compare_and_set.lua").read_text("utf-8")


@asynccontextmanager
async def open_redis(url: str, *, timeout_ms: int = 1_000) -> AsyncIterator["Redis"]:
    """Open a client; nothing is sent before its first use.

    Parameters
    ----------
    url
        ``redis://host:port/database``.
    timeout_ms
        How long one command or connection attempt may take.
    """
    client = Redis.from_url(
        url,
        socket_timeout=timeout_ms / 1000,
        socket_connect_timeout=timeout_ms / 1000,
        # One repeat: a connection of the pool may be dead since a restart of the server.
        retry=Retry(NoBackoff(), 1),
    )
    try:
        yield client
    finally:
        await client.aclose()


@contextmanager
def _faults(key: str) -> Iterator[None]:
    """Raise the client's errors as the store's: of another type, else away."""
    try:
        yield
    except ResponseError as error:
        if str(error).startswith("WRONGTYPE"):
            raise StoreCorruptError(f"{key} is of another type") from error
        raise StoreUnavailableError(f"{type(error).__name__}: {error}") from error
    except (RedisError, OSError, TimeoutError) as error:
        raise StoreUnavailableError(f"{type(error).__name__}: {error}") from error


async def known_logs(client: "Redis", namespace: str = NAMESPACE) -> list[str]:
    """Return the ids of the logs that have a value here, sorted.

    Raises
    ------
    StoreUnavailableError
        Redis does not answer.
    StoreCorruptError
        The list of logs is not a set, or an id in it is not text; the next write repairs the first.
    """
    key = f"{namespace}:logs"
    with _faults(key):
        # The stubs do not know which of the two clients answers.
        members: Any = client.smembers(key)
        names: list[bytes] = list(await members)
    try:
        return sorted(name.decode() for name in names)
    except UnicodeDecodeError as error:
        raise StoreCorruptError(f"{key} holds {names}") from error


class RedisSnapshotStore:
    """The stamped value ``name`` of the log ``log_id``.

    Parameters
    ----------
    client
        An open client that does not decode answers.
    log_id
        Id of the log that the value is a projection of.
    name
        Name of the value.
    namespace
        First part of all keys.

    Notes
    -----
    Every method raises :class:`StoreUnavailableError` when Redis is away, read-only, loading or
    full: the caller goes on without it. What is held and is not a stamped value is absent for a
    writer, who puts a right one in its place, and an error for a reader.
    """

    def __init__(
        self, client: "Redis", log_id: str, name: str, *, namespace: str = NAMESPACE
    ) -> None:
        self._client = client
        self._log_id = log_id
        self.key = f"{namespace}:{log_id}:{name}"
        self._index = f"{namespace}:logs"
        self._script: Any = client.register_script(_SCRIPT)

    async def write(self, value: Versioned) -> WriteResult:
        """Put the value iff its stamp is newer than the one held.

        Returns
        -------
        WriteResult
            ``written``; ``repeated`` where the same value is there; ``stale_writer`` where a newer
            stamp is there; ``conflict`` where another value with this stamp is there.
        """
        stamp = value.stamp
        arguments: list[str | int | bytes] = [
            self._log_id,
            stamp.epoch,
            stamp.number,
            stamp.step,
        ]
        for name, content in sorted(value.fields.items()):
            arguments += [name, content]
        with _faults(self.key):
            answer = await self._script(keys=[self.key, self._index], args=arguments)
        outcome, *held = (part.decode() for part in answer)
        return WriteResult(Outcome(outcome), Stamp(*(int(part) for part in held)))

    async def read(self) -> Versioned | None:
        """Return the value held; None when there is none.

        Raises
        ------
        StoreCorruptError
            Something else is held under the key.
        """
        with _faults(self.key):
            answer: Any = self._client.hgetall(self.key)
            held: Mapping[bytes, bytes] = await answer
        if not held:
            return None
        try:
            fields = {name.decode(): content for name, content in held.items()}
            stamp = _stamp([fields.get(name) for name in STAMP_FIELDS])
            return Versioned(
                stamp, {n: c for n, c in fields.items() if not n.startswith(RESERVED_PREFIX)}
            )
        except ValueError as error:
            raise StoreCorruptError(f"{self.key} holds {sorted(held)}: {error}") from error

    async def presence(self, written: Stamp) -> Presence:
        """Tell whether what was written with stamp ``written`` is still there.

        Damage is told as absence: it is put right by the same write.
        """
        try:
            with _faults(self.key):
                answer: Any = self._client.hmget(self.key, list(STAMP_FIELDS))
                held = _stamp(await answer)
                count: Any = self._client.hlen(self.key)
                fields = int(await count)
        except (StoreCorruptError, ValueError):
            return Presence.EMPTY
        return presence_of(held if fields > len(STAMP_FIELDS) else None, written)


def _stamp(parts: list[bytes | None]) -> Stamp:
    """Return the stamp that three fields hold.

    Raises
    ------
    ValueError
        One is missing, or not a number of a stamp.
    """
    numbers = [STAMP_NUMBER.fullmatch(part or b"") for part in parts]
    epoch, number, step = (int(match[0]) for match in numbers if match is not None)
    return Stamp(epoch, number, step)
