from numpy import int64
from numpy.typing import NDArray

from walras_clearing.arrays import Column, Numbers

BUILD_STAMP: str

def read_demand(
    team_of_job: Numbers, size: Column, limit: Column, prices: NDArray[int64]
) -> NDArray[int64]: ...
def faults_of_jobs(
    team: Numbers,
    size: Column,
    limit: Column,
    teams: int,
    most_size: int,
    most_limit: int,
    no_limit: int,
) -> tuple[bool, bool, bool, bool]: ...
