"""What a failed write to the log means: a broker that is away, or a mistake of the agent's own."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.errors import ProducerFenced

from walras_contracts.topics import load_topics
from walras_node_agent.agent import wiring
from walras_node_agent.agent.outgoing import Outgoing
from walras_node_agent.agent.settings import AgentSettings
from walras_node_agent.agent.wiring import KafkaLog
from walras_runtime.errors import BrokerUnavailableError

EVENT = Outgoing("e/0", "usage", "l1/n1/1/0", "t1", "walras.usage.metered.v1", "{}")
CALLS = ("begin_transaction", "send_batch", "commit_transaction", "stop")


class Client:
    """A producer's calls; some of them raise."""

    def __init__(self, fails: dict[str, Exception]) -> None:
        self._fails = fails
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in CALLS:
            raise AttributeError(name)

        async def call(*_: object, **__: object) -> Any:
            self.called.append(name)
            if name in self._fails:
                raise self._fails[name]
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done

        return call


def send(monkeypatch: pytest.MonkeyPatch, client: Client, broken: str = "") -> None:
    """Write one event through a client that is started already; a place may be broken."""

    async def opened(log: KafkaLog) -> Any:
        log._producer = client
        return client

    def packed(_: object, rows: dict[tuple[str, int], object]) -> list[tuple[str, int, object]]:
        return [(topic, partition, rows) for topic, partition in rows]

    def fails(*_: object, **__: object) -> None:
        raise AssertionError("a mistake in the agent")

    monkeypatch.setattr(KafkaLog, "_opened", opened)
    monkeypatch.setattr(wiring, "pack_rows", packed)
    if broken:
        monkeypatch.setattr(wiring, broken, fails)
    settings = AgentSettings(kafka_bootstrap="nowhere:1", node="n1", state_directory="/nowhere")
    asyncio.run(KafkaLog(settings, load_topics(), "me").send([EVENT]))


@pytest.mark.parametrize("call", CALLS[:3])
@pytest.mark.parametrize(
    "error", [AssertionError("invalid state transition"), ProducerFenced(), OSError(9, "closed")]
)
def test_whatever_the_client_answers_is_a_broker_that_does_not_take_it(
    monkeypatch: pytest.MonkeyPatch, call: str, error: Exception
) -> None:
    client = Client({call: error})
    with pytest.raises(BrokerUnavailableError):
        send(monkeypatch, client)
    assert client.called[-1] == "stop", "another producer is opened for the next try"


@pytest.mark.parametrize("place", ["event_headers", "partition_of", "pack_rows"])
def test_a_broken_assertion_of_the_agent_s_own_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    with pytest.raises(AssertionError, match="a mistake"):
        send(monkeypatch, Client({}), place)


def test_a_producer_that_cannot_be_stopped_does_not_hide_why_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client({"commit_transaction": ProducerFenced(), "stop": AssertionError("fenced")})
    with pytest.raises(BrokerUnavailableError, match="Fenced"):
        send(monkeypatch, client)
