"""Run capacity: ``python -m walras_capacity``."""

from walras_capacity.settings import Settings
from walras_capacity.wiring import build
from walras_runtime.service import service_main


def main() -> None:
    """Serve until told to stop."""
    service_main(Settings, build)


if __name__ == "__main__":
    main()
