from typing import Final

from walras_clearing.guess import Curves
from walras_clearing.pack import Cleared, Column, Columns

BUILD_STAMP: Final[str]

def guess_prices(columns: Columns, curves: Curves) -> tuple[int, Column]: ...
def clear_columns(columns: Columns, price_hint: int, pool_hints: Column) -> Cleared: ...
