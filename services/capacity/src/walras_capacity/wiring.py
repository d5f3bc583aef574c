"""How capacity is wired to the step loop."""

from walras_capacity.settings import Settings
from walras_capacity.stage import CapacityStage
from walras_runtime.stage import Input, StageSpec


def build(settings: Settings) -> StageSpec:
    """Return capacity's wiring; the settings do not change it."""
    del settings
    return StageSpec(
        service="capacity",
        inputs=(Input("inventory", raw=True), Input("node.health")),
        outputs=("supply", "nodes", "dead_letter"),
        build=lambda _: CapacityStage(),
    )
