"""Who wants which notices, and where they go: the settings file as checked values.

What the file says of an address or a secret's name is never repeated in an error.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from yarl import URL

from walras_contracts.drains import NoticeKind, NotificationIssued
from walras_contracts.identifiers import ID_PATTERN, Id

EVERYBODY: Final = "*"
ADDRESS: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,189}")
SECRET_NAME: Final = re.compile(r"(?!WALRAS_)[A-Z][A-Z0-9_]{0,62}")


class SubscriptionsError(ValueError):
    """The file is not usable; the message names every fault, and no value."""


def _secret_name(value: str) -> str:
    if SECRET_NAME.fullmatch(value) is None:
        raise ValueError(
            "must be the name of a secret, not the secret: capitals, digits, _; not WALRAS_…"
        )
    return value


def _address(value: str) -> str:
    if ADDRESS.fullmatch(value) is None:
        raise ValueError("must be one e-mail address in ASCII, without a name")
    return value


def _some(values: tuple[Any, ...]) -> tuple[Any, ...]:
    # Not a minimum length: that would also blame the list where only an item of it is wrong.
    if not values:
        raise ValueError("must not be empty")
    return values


SecretName = Annotated[str, StringConstraints(strict=True), AfterValidator(_secret_name)]
Address = Annotated[str, StringConstraints(strict=True), AfterValidator(_address)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Subscription(_Table):
    """The notices of a team, or of all teams: of some kinds, or of all."""

    team: Annotated[str, StringConstraints(strict=True, pattern=rf"{ID_PATTERN}|^\*$")]
    kinds: Annotated[tuple[NoticeKind, ...], AfterValidator(_some)] | None = None

    def wants(self, kind: NoticeKind) -> bool:
        """Whether notices of a kind are wanted."""
        return self.kinds is None or kind in self.kinds


class Receiver(_Table):
    """Where notices go: a webhook, or an e-mail address."""

    name: Id
    url: Annotated[str, StringConstraints(strict=True)] | None = None
    secret: SecretName | None = None
    plain_http: bool = False
    """The URL may be http:// although it is not on this machine."""
    email: Address | None = None
    subscription: Annotated[tuple[Subscription, ...], AfterValidator(_some)]

    @property
    def channel(self) -> str:
        """``webhook`` or ``email``."""
        return "email" if self.url is None else "webhook"

    @model_validator(mode="after")
    def _has_one_address(self) -> Self:
        if (self.url is None) is (self.email is None):
            raise ValueError("needs either url and secret, or email")
        if (self.url is None) is not (self.secret is None):
            raise ValueError("url and secret go together")
        if self.url is not None:
            _check_url(self.url, plain=self.plain_http)
        return self


def _check_url(text: str, *, plain: bool) -> None:
    try:
        url = URL(text)
        host = url.host or ""
    except ValueError:
        host, url = "", URL()
    if url.scheme not in {"http", "https"} or not host or url.raw_fragment:
        raise ValueError("url must be https://host/…, without a fragment")
    if url.user is not None or url.password is not None:
        raise ValueError("url must not carry a user or a password")
    if url.scheme == "http" and not plain and not is_loopback(host):
        raise ValueError("url is http://: use https://, or say plain_http = true")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name."""
    return host in {"localhost", "::1"} or host.startswith("127.")


class MailServer(_Table):
    """The SMTP server that takes the e-mail."""

    host: Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9.:-]{1,253}$")]
    port: Annotated[int, Field(strict=True, ge=1, le=65_535)] = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: Annotated[str, StringConstraints(strict=True, min_length=1)] | None = None
    password: SecretName | None = None
    sender: Annotated[Address, Field(alias="from")]

    @model_validator(mode="after")
    def _sends_no_password_in_clear(self) -> Self:
        if (self.user is None) is not (self.password is None):
            raise ValueError("user and password go together")
        if self.user is not None and self.security == "none" and not is_loopback(self.host):
            raise ValueError('security = "none" would send the password in clear')
        return self


class Subscriptions(_Table):
    """The whole file."""

    receiver: tuple[Receiver, ...] = ()
    mail: MailServer | None = None

    @model_validator(mode="after")
    def _is_unambiguous(self) -> Self:
        _refuse_twice("name", [receiver.name for receiver in self.receiver])
        _refuse_twice("url", [r.url for r in self.receiver if r.url is not None])
        _refuse_twice("email", [r.email for r in self.receiver if r.email is not None])
        if self.mail is None and any(r.email is not None for r in self.receiver):
            raise ValueError("a receiver has an email, so [mail] is needed")
        return self

    def secret_names(self) -> list[str]:
        """Return the names of all secrets that are needed."""
        names = {r.secret for r in self.receiver if r.secret is not None}
        if self.mail is not None and self.mail.password is not None:
            names.add(self.mail.password)
        return sorted(names)


def _refuse_twice(what: str, values: Sequence[str]) -> None:
    if len(set(values)) < len(values):
        raise ValueError(f"two receivers have the same {what}: make them one, with both tables")


class Routing:
    """Finds the receivers of a notice without looking at all of them."""

    def __init__(self, receivers: Iterable[Receiver]) -> None:
        self._by_team: dict[str, list[tuple[Receiver, Subscription]]] = {}
        for receiver in receivers:
            for subscription in receiver.subscription:
                pairs = self._by_team.setdefault(subscription.team, [])
                pairs.append((receiver, subscription))

    def receivers_of(self, notice: NotificationIssued) -> list[str]:
        """Return the names of those who want a notice, each once."""
        found: Mapping[str, None] = {
            receiver.name: None
            for team in (notice.team, EVERYBODY)
            for receiver, subscription in self._by_team.get(team, ())
            if subscription.wants(notice.kind)
        }
        return list(found)


def parse_subscriptions(text: str) -> Subscriptions:
    """Read the text of the file.

    Raises
    ------
    SubscriptionsError
        It is not TOML, or says something that is missing, unknown, wrong or contradictory.
    """
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SubscriptionsError(f"not TOML: {error}") from error
    try:
        return Subscriptions.model_validate(document)
    except ValidationError as error:
        lines = [
            f"{_place(document, fault['loc'])}: {fault['msg'].removeprefix('Value error, ')}"
            for fault in error.errors(include_url=False, include_input=False)
        ]
        raise SubscriptionsError("\n".join(lines)) from error


def _place(document: Mapping[str, Any], steps: tuple[int | str, ...]) -> str:
    """Word where a fault is; receivers by their names, or numbers from 1."""
    words = [str(step + 1) if isinstance(step, int) else step for step in steps]
    if len(steps) > 1 and steps[0] == "receiver" and isinstance(steps[1], int):
        table = document["receiver"][steps[1]]
        name = table.get("name") if isinstance(table, dict) else None
        if isinstance(name, str) and re.fullmatch(ID_PATTERN, name):
            words[1] = name
    return " ".join(words) or "file"
