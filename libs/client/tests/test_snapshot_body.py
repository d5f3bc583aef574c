"""The body that the projector writes is the body that the client reads."""

import json

import pytest

from walras_client.sheets import Place, Quota
from walras_client.snapshot_body import SheetUnreadableError, read_body
from walras_contracts.accounts import AccountsChanged, PoolDocument, TeamAccount
from walras_contracts.capacity import OwnSupply, SupplyPublished
from walras_contracts.market import MarketQuota, QuotaGranted
from walras_runtime.records import Barrier
from walras_snapshot.core import body
from walras_snapshot.state import SnapshotState


def written() -> bytes:
    state = SnapshotState()
    part = MarketQuota(market="gpu", allocated_macc=6, opportunistic_macc=2, price_micro=None)
    state.quotas["a"] = QuotaGranted(team="a", pool="p", cycle=3, market_time_ms=0, markets=(part,))
    state.supplies["gpu"] = SupplyPublished(
        market="gpu",
        shared_macc=10,
        own=(OwnSupply(pool="p", macc=5),),
        withheld_macc=4,
        market_time_ms=0,
    )
    document = PoolDocument(
        pool="p",
        weight_micro_per_hour=1,
        teams=(TeamAccount(team="a", income_local_per_hour=1),),
    )
    state.pools["p"] = [AccountsChanged(version=1, effective_ms=0, document=document)]
    return body(state, Barrier(20, 1_200_000), 6)


def test_the_client_reads_what_the_projector_writes() -> None:
    quotas, floor = read_body(written(), log_id="log", epoch=2, published_at_ms=99)
    place = Place("log", 2, 3, 20, 99)
    assert (quotas.place, floor.place) == (place, place)
    assert quotas.teams == {"a": {"gpu": Quota(6, 2)}}
    assert quotas.supply == {"gpu": 15}  # shared and own; what is withheld is not there
    assert quotas.granted_in == {"a": 3}
    assert floor.teams == {"a": {"gpu": 5}}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), 2),
        (("barrier",), -1),
        (("barrier",), 1.0),
        (("quotas", "a", "markets", "gpu", "allocated_macc"), "6"),
        (("quotas", "a", "markets"), None),
        (("supply", "gpu", "own"), [1]),
        (("floor", "a", "gpu"), True),
    ],
)
def test_a_body_of_another_kind_is_refused(path: tuple[str, ...], value: object) -> None:
    document = json.loads(written())
    *above, last = path
    place = document
    for name in above:
        place = place[name]
    place[last] = value
    with pytest.raises(SheetUnreadableError):
        read_body(json.dumps(document).encode(), log_id="log", epoch=1, published_at_ms=0)


@pytest.mark.parametrize(
    "content", [b"\xff{", pytest.param(b'{"format":' + b"[" * 200_000, id="deep")]
)
def test_bytes_that_are_not_json_are_refused(content: bytes) -> None:
    with pytest.raises(SheetUnreadableError):
        read_body(content, log_id="log", epoch=1, published_at_ms=0)
