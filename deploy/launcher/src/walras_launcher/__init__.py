"""Real Kafka and Redis for development, tests and the demo."""

from walras_launcher.errors import LauncherError
from walras_launcher.kafka import KafkaBroker, prepare_kafka, start_kafka
from walras_launcher.ladder import open_broker, open_redis, plan_broker, plan_redis
from walras_launcher.redis import RedisServer, start_redis
from walras_launcher.running import Broker, Redis
from walras_launcher.server import Rung

__all__ = [
    "Broker",
    "KafkaBroker",
    "LauncherError",
    "Redis",
    "RedisServer",
    "Rung",
    "open_broker",
    "open_redis",
    "plan_broker",
    "plan_redis",
    "prepare_kafka",
    "start_kafka",
    "start_redis",
]
