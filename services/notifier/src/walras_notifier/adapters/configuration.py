"""Reads the subscriptions and the secrets that they name. Secrets are never told."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from walras_notifier.subscriptions import Subscriptions, SubscriptionsError, parse_subscriptions

SECRET_BYTES_MIN: Final = 16


@dataclass(frozen=True, slots=True)
class Configuration:
    """Who wants what, and the secrets by name."""

    subscriptions: Subscriptions
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)


def read_configuration(
    file: str | None, directory: str | None, environment: Mapping[str, str] | None = None
) -> Configuration:
    """Read the file and all secrets that it names.

    Parameters
    ----------
    file
        Path of the subscriptions; None: nobody wants anything.
    directory
        Folder with one file per secret; what is not there is taken from the environment.
    environment
        Variables to look at; this process's own if left out.

    Raises
    ------
    SubscriptionsError
        Something is missing or wrong; every fault of a kind is named.
    """
    if file is None:
        return Configuration(Subscriptions())
    try:
        text = Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SubscriptionsError(f"cannot be read: {type(error).__name__}") from error
    subscriptions = parse_subscriptions(text)
    variables = os.environ if environment is None else environment
    secrets = {name: _secret(name, directory, variables) for name in subscriptions.secret_names()}
    missing = [name for name, value in secrets.items() if value is None]
    if missing:
        places = "the environment" if directory is None else f"{directory} or the environment"
        raise SubscriptionsError(f"secrets that are not in {places}: {', '.join(missing)}")
    found = {name: value for name, value in secrets.items() if value is not None}
    signing = {r.secret for r in subscriptions.receiver if r.secret is not None}
    short = sorted(name for name in signing if len(found[name]) < SECRET_BYTES_MIN)
    if short:
        raise SubscriptionsError(
            f"secrets that sign need {SECRET_BYTES_MIN} bytes or more: {', '.join(short)}"
        )
    return Configuration(subscriptions, found)


def _secret(name: str, directory: str | None, environment: Mapping[str, str]) -> bytes | None:
    """Return a secret, without the newline that an editor puts behind it."""
    value: bytes | None = None
    if directory is not None:
        try:
            value = (Path(directory) / name).read_bytes()
        except FileNotFoundError:
            value = None
        except OSError as error:
            raise SubscriptionsError(
                f"secret {name} cannot be read from {directory}: {type(error).__name__}"
            ) from error
    if value is None and name in environment:
        value = environment[name].encode()
    return None if value is None else value.rstrip(b"\r\n") or None
