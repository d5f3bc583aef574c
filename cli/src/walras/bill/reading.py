"""Reads what a bill is made of: charges first, then only what concerns them."""

from walras.bill.charged_use import ChargeFold
from walras.bill.supply_shares import SupplyShares
from walras.bill.team_bill import TeamBill, team_bill
from walras.billing_log import BillingLogError, Source, Window
from walras.prices.history import MarketPrices
from walras_contracts.charges import ChargeCredited, ChargePending, ChargeRated
from walras_contracts.market import CycleRecorded, PriceGapPublished, PricePublished
from walras_contracts.usage_settled import UsageSettled


def read_bill(source: Source, team: str, window: Window) -> TeamBill:
    """Return the bill of a team over a window.

    Raises
    ------
    BillingLogError
        The source cannot be read, or has no charge of the team at any time.
    """
    fold = ChargeFold(window)
    is_known = False
    for line in source.read(ChargeRated, ChargeCredited, partition_key=team):
        assert isinstance(line, ChargeRated | ChargeCredited)
        if line.team == team:
            is_known = True
            fold.take(line)
    waiting = source.latest(ChargePending, partition_key=team)
    pending = [part for _, part in sorted(waiting.items()) if part.team == team]
    if not is_known and not pending:
        raise BillingLogError(f"no charge of team {team} is there")
    markets = {use.market: MarketPrices() for use in fold.uses.values()}
    for event in source.read(PricePublished, PriceGapPublished):
        assert isinstance(event, PricePublished | PriceGapPublished)
        if event.market in markets:
            markets[event.market].take(event)
    pools = {(use.market, use.pool) for use in fold.uses.values()}
    shares = SupplyShares()
    for record in source.read(CycleRecorded):
        shares.take(record, pools)
    bill = team_bill(team, fold, pending, markets, shares)
    for settled in source.read(UsageSettled, partition_key=team):
        if settled.team == team:
            bill.hold(settled)
    return bill
