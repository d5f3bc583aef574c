"""Entry point of the drain service."""

from walras_drain.settings import Settings
from walras_drain.wiring import serve
from walras_runtime.service import process_main


def main() -> None:
    """Run the service until a signal."""
    process_main(Settings, serve)


if __name__ == "__main__":
    main()
