"""Quotas and floor from the snapshot in Redis."""

from walras_client.ladder import Sighting, Source
from walras_client.snapshot_body import SheetUnreadableError, read_body
from walras_runtime.redis.snapshot_store import RedisSnapshotStore, known_logs, open_redis
from walras_runtime.redis.versioned import StoreCorruptError, StoreUnavailableError

STORE_NAME = "snapshot"


async def read_snapshot(url: str, log_id: str | None, *, timeout_ms: int) -> Sighting:
    """Read the snapshot of a log.

    Parameters
    ----------
    url
        Address of Redis.
    log_id
        Which log; None takes the only one there, and refuses to guess among several.
    timeout_ms
        How long one command may take.

    Returns
    -------
    Sighting
        What was seen; whatever goes wrong is a fault in it, not an exception.
    """
    try:
        async with open_redis(url, timeout_ms=timeout_ms) as client:
            if log_id is None:
                logs = await known_logs(client)
                if len(logs) > 1:
                    return Sighting(Source.SNAPSHOT, fault="several_logs")
                if not logs:
                    return Sighting(Source.SNAPSHOT)
                log_id = logs[0]
            value = await RedisSnapshotStore(client, log_id, STORE_NAME).read()
        if value is None:
            return Sighting(Source.SNAPSHOT)
        quotas, floor = read_body(
            value.fields["body"],
            log_id=log_id,
            epoch=value.stamp.epoch,
            published_at_ms=int(value.fields["published_at_ms"]),
        )
    except (StoreUnavailableError, StoreCorruptError, SheetUnreadableError) as error:
        return Sighting(Source.SNAPSHOT, fault=error.code)
    except (KeyError, ValueError):
        return Sighting(Source.SNAPSHOT, fault=SheetUnreadableError.code)
    return Sighting(Source.SNAPSHOT, quotas, floor)
