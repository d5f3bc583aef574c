"""Other policies for a recorded market: named ones, and single settings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, cast, get_args

import numpy as np

from walras.replay.rebuilding import RebuiltMarket
from walras_clearing.arrays import Column, MarketArrays
from walras_clearing.model import IdleOwnSupply, Margin
from walras_contracts.quantities import LIMIT_MICRO_MAX, PPM

NAMED: Final[dict[str, tuple[str, ...]]] = {
    "recorded": (),
    "pro_rata": ("margin=pro_rata",),
    "strict_order": ("margin=strict_order",),
    "keep": ("idle_own_supply=keep",),
    "lend": ("idle_own_supply=lend",),
    "no_reserve": ("reserve_price_micro=0",),
}
"""What ``--policy`` knows; `recorded` changes nothing, for a report of what was."""
SETTINGS: Final = {
    "margin": "pro_rata | strict_order",
    "idle_own_supply": "keep | lend",
    "reserve_price_micro": "µcr per accelerator-hour",
    "shared_supply_ppm": "scale of the shared supply, parts per million, rounded down",
    "own_supply_ppm": "scale of every pool's own supply, likewise",
    "bid_ppm.POOL": "scale of the bids of a pool's teams, likewise",
}
"""What ``--set`` knows."""
BID_PREFIX: Final = "bid_ppm."
SCALE_MAX_PPM: Final = 1000 * PPM
BEYOND_ALL_RANGES: Final = 2**62


class PolicyError(ValueError):
    """A policy or setting that does not exist, or a value that it cannot take."""

    code: ClassVar[str] = "unknown_policy"
    retriable: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Policy:
    """What to change in a recorded market before it is cleared; None leaves it as it was."""

    margin: Margin | None = None
    idle_own_supply: IdleOwnSupply | None = None
    reserve_price_micro: int | None = None
    shared_supply_ppm: int = PPM
    own_supply_ppm: int = PPM
    bid_ppm: Mapping[str, int] = field(default_factory=dict)

    def apply(self, market: RebuiltMarket) -> MarketArrays:
        """Return the market under this policy; what is scaled out of its range is refused later."""
        arrays = market.arrays
        reserve = self.reserve_price_micro
        return replace(
            arrays,
            margin=self.margin or arrays.margin,
            idle_own_supply=self.idle_own_supply or arrays.idle_own_supply,
            reserve_price_micro=arrays.reserve_price_micro if reserve is None else reserve,
            shared_supply_macc=arrays.shared_supply_macc * self.shared_supply_ppm // PPM,
            own_supply_macc=_scaled(arrays.own_supply_macc, self.own_supply_ppm),
            bid_micro_per_hour=self._bids(market),
        )

    def _bids(self, market: RebuiltMarket) -> Column:
        bids = market.arrays.bid_micro_per_hour.copy()
        for pool, ppm in self.bid_ppm.items():
            if pool in market.pools:
                members = market.arrays.pool_of_team == market.pools.index(pool)
                bids[members] = _scaled(bids[members], ppm)
        return bids


def parse_policy(name: str | None, settings: Iterable[str]) -> tuple[Policy, dict[str, str | int]]:
    """Return the policy that ``--policy`` and ``--set`` ask for, and its settings by name.

    Parameters
    ----------
    name
        One of `NAMED`; None for `recorded`.
    settings
        ``KEY=VALUE``; a later one wins, and wins over the named policy's.

    Raises
    ------
    PolicyError
        No policy has the name, no setting has the key, or it cannot have the value.
    """
    if name is not None and name not in NAMED:
        raise PolicyError(f"no policy {name!r}: there are {', '.join(NAMED)}")
    values: dict[str, str | int] = {}
    for text in (*NAMED[name or "recorded"], *settings):
        key, equals, value = text.partition("=")
        if not equals:
            raise PolicyError(f"{text!r} is not KEY=VALUE")
        values[key] = _value(key, value)
    own = {key: value for key, value in values.items() if not key.startswith(BID_PREFIX)}
    return Policy(
        margin=cast("Margin | None", own.get("margin")),
        idle_own_supply=cast("IdleOwnSupply | None", own.get("idle_own_supply")),
        reserve_price_micro=cast("int | None", own.get("reserve_price_micro")),
        shared_supply_ppm=cast("int", own.get("shared_supply_ppm", PPM)),
        own_supply_ppm=cast("int", own.get("own_supply_ppm", PPM)),
        bid_ppm={
            key.removeprefix(BID_PREFIX): cast("int", value)
            for key, value in values.items()
            if key.startswith(BID_PREFIX)
        },
    ), values


def _value(key: str, text: str) -> str | int:
    words = {"margin": get_args(Margin), "idle_own_supply": get_args(IdleOwnSupply)}
    if key in words:
        if text not in words[key]:
            raise PolicyError(f"{key} is one of {', '.join(words[key])}, not {text!r}")
        return text
    known = key in SETTINGS or (key.startswith(BID_PREFIX) and len(key) > len(BID_PREFIX))
    if not known:
        raise PolicyError(f"no setting {key!r}: there are {', '.join(SETTINGS)}")
    most = LIMIT_MICRO_MAX if key == "reserve_price_micro" else SCALE_MAX_PPM
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(SCALE_MAX_PPM * PPM))
    if not digits or int(text) > most:
        raise PolicyError(f"{key} is an integer from 0 to {most}, not {text!r}")
    return int(text)


def _scaled(column: Column, ppm: int) -> Column:
    if ppm == PPM:
        return column
    # Products exceed 64 bits; what leaves every range is cut, and refused by the auction.
    scaled = [min(value * ppm // PPM, BEYOND_ALL_RANGES) for value in column.tolist()]
    return np.array(scaled, np.int64)
