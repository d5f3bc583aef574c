"""The signature of a webhook."""

import hmac

import pytest

from services.notifier.tests.notices import notice
from walras_notifier.rendering import webhook_body
from walras_notifier.signing import headers, signature

# Computed with: printf '%s' "$timestamp.$body" | openssl dgst -sha256 -hmac "$secret"
VECTORS = [
    (
        b"a secret of thirty-two characters",
        1_767_268_800,
        b'{"a":1}',
        "4a1db82762ce4025dfd4a9f42c6f11f92cae203402059ea0bcb252b5179122de",
    ),
    (
        b"sixteen bytes...",
        0,
        b"",
        "812d20f66f93727c0d3e0ed0aa219b74b29a4419d0ef5fbab5933a6d6cff0c77",
    ),
    (
        b"\x80\xff not text at all",
        4_102_444_800,
        b"\x00\n\xff",
        "6f630ab4a9ea0250ffa3833aadbcb39bb07d4784399eb11ba21ff7a8b2629994",
    ),
]


@pytest.mark.parametrize(("secret", "timestamp_s", "body", "hex_digits"), VECTORS)
def test_the_signature_is_that_of_another_implementation(
    secret: bytes, timestamp_s: int, body: bytes, hex_digits: str
) -> None:
    assert signature(secret, timestamp_s, body) == f"v1={hex_digits}"


def test_the_headers_name_the_notice_and_the_time_that_was_signed() -> None:
    body = webhook_body(notice())
    found = headers("n1", b"sixteen bytes...", 1_767_268_800, body)
    assert found["Walras-Notification"] == "n1"
    assert found["Walras-Timestamp"] == "1767268800"
    assert found["Content-Type"] == "application/json"
    assert found["Walras-Signature"] == signature(b"sixteen bytes...", 1_767_268_800, body)


def test_another_secret_time_or_body_gives_another_signature() -> None:
    one = signature(b"sixteen bytes...", 10, b"12")
    others = [
        signature(b"Sixteen bytes...", 10, b"12"),
        signature(b"sixteen bytes...", 11, b"12"),
        signature(b"sixteen bytes...", 10, b"13"),
        signature(b"sixteen bytes...", 1, b"0.12"),
    ]
    assert not any(hmac.compare_digest(one, other) for other in others)
