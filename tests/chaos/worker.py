"""Entry point of a worker of a chaos run: the service as it is, with a loop that takes orders.

CHAOS_SERVICE names the service, CHAOS_ORDERS the folder of orders, CHAOS_BROKEN a broken build
(`tests/chaos/broken.py`); without the last the loop and the stage are the product's own.
"""

import os
from typing import Final

from tests.chaos.ordered_runner import OrderedRunner
from tests.chaos.roles import ROLES
from walras_runtime import service
from walras_runtime.kafka.step_runner import StepRunner
from walras_runtime.service import service_main

SERVICE_VARIABLE: Final = "CHAOS_SERVICE"
BROKEN_VARIABLE: Final = "CHAOS_BROKEN"


def main() -> None:
    """Run the service that the environment names."""
    broken = os.environ.get(BROKEN_VARIABLE, "")
    runner: type[StepRunner] = OrderedRunner
    if broken:
        # Only then: a worker that is not broken must not even know how.
        from tests.chaos.broken import BUILDS  # noqa: PLC0415

        runner = BUILDS[broken]()
    vars(service)["StepRunner"] = runner
    role = next(role for role in ROLES if role.name == os.environ[SERVICE_VARIABLE])
    service_main(role.settings, role.build)


if __name__ == "__main__":
    main()
