"""Notifiers as processes on a real broker, and what they are fed with."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupCoordinatorNotAvailableError

from services.notifier.tests.loopback_servers import PATIENCE_S, POLL_S, until
from walras_contracts.drains import NotificationIssued
from walras_contracts.topics import load_topics
from walras_launcher.process import kill, spawn
from walras_runtime.kafka.effects import Progress
from walras_runtime.kafka.opening import opened
from walras_runtime.kafka.producing import make_producer, send_rows
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.kafka.wire import event_headers

KEY = "0123456789abcdef"
TOPICS = {name: load_topics()[name] for name in ("notifications", "dead_letter")}
GROUP = "walras.notifier"


def receivers(**urls: str) -> str:
    """Return a file by which all notices go to each URL."""
    return "".join(
        f'[[receiver]]\nname = "{name}"\nurl = "{url}"\nsecret = "HOOK_KEY"\n'
        '[[receiver.subscription]]\nteam = "*"\n'
        for name, url in urls.items()
    )


class Log:
    """The topic of notices on a broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    async def create(self) -> None:
        await create_topics(self.bootstrap, TOPICS)

    async def write(self, notices: Sequence[NotificationIssued], *, commit: bool = True) -> None:
        """Write notices as the drain service would: in a transaction."""
        headers = event_headers("id", b"test", NotificationIssued.TYPE)
        producer = make_producer(self.bootstrap, transactional_id="drain-0")
        async with opened(producer):
            await producer.begin_transaction()
            rows = [(n.record_key().encode(), n.payload(), headers) for n in notices]
            await send_rows(producer, {(TOPICS["notifications"].full_name, 0): rows})
            if commit:
                await producer.commit_transaction()
            else:
                await producer.flush()
                await producer.abort_transaction()

    async def position(self) -> Progress | None:
        tp = TopicPartition(TOPICS["notifications"].full_name, 0)
        async with opened(AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
            try:
                found = await admin.list_consumer_group_offsets(GROUP)
            except GroupCoordinatorNotAvailableError:
                return None  # no group has been on this broker yet
        return Progress(found[tp].offset, found[tp].metadata) if tp in found else None

    async def holds(self, wanted: Progress) -> None:
        """Wait for a position."""
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE_S
        while (held := await self.position()) != wanted:
            assert loop.time() < end, f"{held} instead of {wanted}"
            await asyncio.sleep(POLL_S)


class Notifier:
    """A notifier as a process."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self.log = log

    def text(self) -> str:
        return self.log.read_text("utf-8") if self.log.exists() else ""

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        kill(self.process)

    async def says(self, words: str, times: int = 1) -> None:
        def said() -> bool:
            assert self.process.poll() is None, self.text()
            return self.text().count(words) >= times

        await until(said, f"{words!r} {times} times in the log")

    async def exit_code(self) -> int:
        await until(lambda: self.process.poll() is not None, "the end of the process")
        return self.process.returncode


class Stable:
    """Starts notifiers with one file of subscriptions; those that still run end with it."""

    def __init__(self, bootstrap: str, directory: Path, text: str) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._file = directory / "subscriptions.toml"
        self._file.write_text(text, "utf-8")
        self.started: list[Notifier] = []

    def start(self, **settings: str) -> Notifier:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("WALRAS_")}
        own: Mapping[str, str] = {
            "WALRAS_KAFKA_BOOTSTRAP": self._bootstrap,
            "WALRAS_ELECTION_SESSION_MS": "1000",
            "WALRAS_NOTIFIER_SUBSCRIPTIONS": str(self._file),
            "WALRAS_NOTIFIER_FIRST_BACKOFF_MS": "50",
            "HOOK_KEY": KEY,
            **{f"WALRAS_NOTIFIER_{name}": value for name, value in settings.items()},
        }
        log = self._directory / f"notifier-{len(self.started)}.log"
        process = spawn(
            [sys.executable, "-m", "walras_notifier"],
            log=log,
            directory=self._directory,
            environment={**clean, **own},
        )
        notifier = Notifier(process, log)
        self.started.append(notifier)
        return notifier

    @classmethod
    @asynccontextmanager
    async def opened(cls, bootstrap: str, directory: Path, text: str) -> AsyncIterator["Stable"]:
        stable = cls(bootstrap, directory, text)
        try:
            yield stable
        finally:
            for notifier in stable.started:
                notifier.kill()
