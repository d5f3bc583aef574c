"""Charge lines as outputs, encoded without building a model each.

They are the bytes of :class:`walras_contracts.charges.ChargeRated` (a test compares them); the
model remains what defines the fields.
"""

from typing import Final

from walras_billing.rating import ChargeLine, charge_id
from walras_billing.term_texts import NULL
from walras_billing.usage_line import UsageLine
from walras_contracts.charges import ChargeRated, ChargeReason
from walras_runtime.records import Output

_REASONS: Final = {reason: reason.value for reason in ChargeReason}
_USAGE: Final = ChargeReason.USAGE.value
_TOPIC: Final = ChargeRated.TOPIC
_TYPE: Final = ChargeRated.TYPE


def charge_output(line: UsageLine, charge: ChargeLine, partition: int) -> Output:
    """Return a charge line as it goes to ``charges``."""
    head, quantity, limit, work_class, _ = line.terms.texts
    corrects, price, previous = charge.corrects, charge.price_micro, charge.previous_price_micro
    payload = (
        f'{head}{line.seq}{quantity}{charge.start_ms},"end_ms":{charge.end_ms}{limit}'
        f'{line.until_ms},"charge_id":"{charge.charge_id}","corrects":'
        f'{NULL if corrects is None else _quoted(corrects)},"reason":"{_REASONS[charge.reason]}'
        f'{work_class}{NULL if price is None else price},"previous_price_micro":'
        f'{NULL if previous is None else previous},"price_barrier":{charge.price_barrier},'
        f'"amount_numerator":"{charge.amount_numerator}"}}'
    )
    return Output(_TOPIC, charge.charge_id, line.terms.team, _TYPE, payload.encode(), partition)


def whole_charge_output(
    line: UsageLine, price: tuple[int, int], amount_numerator: int, partition: int
) -> Output:
    """Return the first and only charge of a line over all of it.

    As :func:`charge_output` does, for nearly all lines and without a
    :class:`walras_billing.rating.ChargeLine`; ``price`` is what is charged, and its barrier.
    """
    terms = line.terms
    head, quantity, limit, work_class, _ = terms.texts
    seq, start_ms = line.seq, line.start_ms
    name = charge_id(terms.source, seq, start_ms)
    payload = (
        f'{head}{seq}{quantity}{start_ms},"end_ms":{line.end_ms}{limit}{line.until_ms},'
        f'"charge_id":"{name}","corrects":null,"reason":"{_USAGE}{work_class}{price[0]},'
        f'"previous_price_micro":null,"price_barrier":{price[1]},'
        f'"amount_numerator":"{amount_numerator}"}}'
    )
    return Output(_TOPIC, name, terms.team, _TYPE, payload.encode(), partition)


def _quoted(charge_id: str) -> str:
    return f'"{charge_id}"'
