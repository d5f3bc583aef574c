"""Run the ticker: ``python -m walras_ticker``."""

from walras_runtime.service import process_main
from walras_ticker.settings import Settings
from walras_ticker.wiring import run


def main() -> None:
    """Serve until told to stop."""
    process_main(Settings, run)


if __name__ == "__main__":
    main()
