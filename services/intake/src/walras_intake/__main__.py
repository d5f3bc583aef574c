"""Run intake: ``python -m walras_intake``."""

from walras_intake.settings import Settings
from walras_intake.wiring import build
from walras_runtime.service import service_main


def main() -> None:
    """Serve until told to stop."""
    service_main(Settings, build)


if __name__ == "__main__":
    main()
