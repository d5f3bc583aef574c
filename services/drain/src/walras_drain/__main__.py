"""Entry point of the drain service."""

from walras_drain.settings import Settings
from walras_drain.wiring import build
from walras_runtime.service import service_main


def main() -> None:
    """Run the service until a signal."""
    service_main(Settings, build)


if __name__ == "__main__":
    main()
