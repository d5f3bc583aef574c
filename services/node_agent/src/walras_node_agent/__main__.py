"""Entry point of the simulated fleet."""

from walras_node_agent.settings import Settings
from walras_node_agent.wiring import build
from walras_runtime.service import service_main


def main() -> None:
    """Run the service until a signal."""
    service_main(Settings, build)


if __name__ == "__main__":
    main()
