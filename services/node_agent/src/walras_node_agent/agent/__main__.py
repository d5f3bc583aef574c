"""Entry point of the agent of one node."""

from walras_node_agent.agent.settings import AgentSettings
from walras_node_agent.agent.wiring import serve
from walras_runtime.service import process_main


def main() -> None:
    """Run the agent until a signal."""
    process_main(AgentSettings, serve)


if __name__ == "__main__":
    main()
