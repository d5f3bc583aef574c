"""The signature of a webhook: who knows the secret sent this body, at about this time."""

import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

ID_HEADER: Final = "Walras-Notification"
TIMESTAMP_HEADER: Final = "Walras-Timestamp"
SIGNATURE_HEADER: Final = "Walras-Signature"
SCHEME: Final = "v1"


def signature(secret: bytes, timestamp_s: int, body: bytes) -> str:
    """Return ``v1=`` and the HMAC-SHA256 of ``timestamp.body`` in hex.

    Parameters
    ----------
    secret
        Known to the receiver too.
    timestamp_s
        When this attempt was made, seconds since the epoch.
    body
        The bytes that are sent.
    """
    signed = b"%d." % timestamp_s + body
    return f"{SCHEME}={hmac.new(secret, signed, sha256).hexdigest()}"


def headers(notification: str, secret: bytes, timestamp_s: int, body: bytes) -> Mapping[str, str]:
    """Return the headers of one attempt to deliver a notice."""
    return {
        "Content-Type": "application/json",
        "User-Agent": "walras-notifier",
        ID_HEADER: notification,
        TIMESTAMP_HEADER: str(timestamp_s),
        SIGNATURE_HEADER: signature(secret, timestamp_s, body),
    }
