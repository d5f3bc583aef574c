"""Run invoicing: ``python -m walras_invoicing``."""

from walras_invoicing.settings import Settings
from walras_invoicing.wiring import build
from walras_runtime.service import service_main


def main() -> None:
    """Serve until told to stop."""
    service_main(Settings, build)


if __name__ == "__main__":
    main()
