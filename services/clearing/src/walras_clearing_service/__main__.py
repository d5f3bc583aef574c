"""The process of the clearing service."""

from walras_clearing_service.settings import Settings
from walras_clearing_service.wiring import build
from walras_runtime.service import service_main


def main() -> None:
    """Run the service until it is stopped."""
    service_main(Settings, build)


if __name__ == "__main__":
    main()
