"""Runs the notifier."""

from walras_notifier.settings import Settings
from walras_notifier.wiring import serve
from walras_runtime.service import process_main


def main() -> None:
    """Run until a signal."""
    process_main(Settings, serve)


if __name__ == "__main__":
    main()
