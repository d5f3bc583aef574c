"""Runs the views service."""

from walras_runtime.service import process_main
from walras_views.settings import Settings
from walras_views.wiring import serve


def main() -> None:
    """Run until a signal."""
    process_main(Settings, serve)


if __name__ == "__main__":
    main()
