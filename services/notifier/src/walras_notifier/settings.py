"""Settings of the notifier."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from walras_notifier.adapters.configuration import Configuration, read_configuration
from walras_notifier.core import Policy
from walras_notifier.subscriptions import SubscriptionsError
from walras_runtime.settings import PREFIX, ServiceSettings


class Settings(ServiceSettings):
    """Brings notices to whoever asked for them: signed webhooks, and e-mail."""

    SERVICE: ClassVar[str] = "notifier"

    subscriptions: str | None = None
    """Path of the file that says who wants which notices (TOML); null: nobody."""
    secrets_directory: str | None = None
    """Folder with one file per secret that the subscriptions name; null: the environment alone."""
    attempt_timeout_ms: Annotated[int, Field(ge=100, le=60_000)] = 10_000
    """How long one attempt to deliver may take."""
    first_backoff_ms: Annotated[int, Field(ge=1, le=60_000)] = 1_000
    """Longest wait before the second attempt; it doubles with each further one."""
    most_backoff_ms: Annotated[int, Field(ge=1, le=3_600_000)] = 300_000
    """Longest wait between two attempts."""
    give_up_after_ms: Annotated[int, Field(ge=1_000, le=604_800_000)] = 86_400_000
    """How long a notice that has neither deadline nor expiry is tried."""
    receiver_connections: Annotated[int, Field(ge=1, le=100)] = 4
    """So many attempts at one receiver may be under way at once, for different teams."""
    most_open: Annotated[int, Field(ge=1, le=1_000_000)] = 20_000
    """With so many deliveries that are not over, no more notices are read."""

    @model_validator(mode="after")
    def _has_subscriptions_that_can_be_used(self) -> Self:
        try:
            self.configuration()
        except SubscriptionsError as error:
            # ValueErrors are what pydantic expects here.
            lines = str(error).splitlines()
            name = f"{PREFIX}NOTIFIER_SUBSCRIPTIONS"
            raise ValueError("\n".join(f"{name}: {line}" for line in lines)) from error
        return self

    def configuration(self) -> Configuration:
        """Read the subscriptions and the secrets that they name.

        Raises
        ------
        SubscriptionsError
            They are not usable.
        """
        return read_configuration(self.subscriptions, self.secrets_directory)

    def policy(self) -> Policy:
        """Return how deliveries are tried."""
        return Policy(
            first_backoff_ms=self.first_backoff_ms,
            most_backoff_ms=self.most_backoff_ms,
            give_up_after_ms=self.give_up_after_ms,
            connections=self.receiver_connections,
            most_open=self.most_open,
        )
