"""What billing was set to, as far as its results depend on it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AuditRules:
    """The settings of billing that its results depend on; their defaults are billing's.

    ``price_grace_ms``: use is rated, and a boundary settled, in the first step so far behind its
    end. ``look_back_ms``: older use is rejected, younger use corrected. ``future_tolerance_ms``:
    how far use may end beyond the barrier behind it. ``max_price_age_ms``: an older price is
    unknown; None: it counts until the next. ``price_wait_ms``: use that waits longer for its price
    is given up.
    """

    price_grace_ms: int = 60_000
    look_back_ms: int = 86_400_000
    future_tolerance_ms: int = 60_000
    max_price_age_ms: int | None = None
    price_wait_ms: int = 3_024_000_000
