from numpy import int64
from numpy.typing import NDArray

from walras_clearing.arrays import Column, Numbers

BUILD_STAMP: str

def read_demand(
    team_of_job: Numbers, size: Column, limit: Column, prices: NDArray[int64]
) -> NDArray[int64]: ...
