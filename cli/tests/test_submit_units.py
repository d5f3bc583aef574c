"""Money, quantities and times as people write them become integers, exactly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.billing_log.amounts import scaled_text
from walras.jobs_log.units import (
    UNITS_MS,
    accelerators_text,
    duration_ms,
    duration_text,
    macc_of,
    micro_of,
)
from walras_contracts.quantities import LIMIT_MICRO_MAX, MACC_MAX


@given(st.integers(0, LIMIT_MICRO_MAX))
def test_credits_with_six_decimals_become_micro_credits_and_back(micro: int) -> None:
    assert micro_of(scaled_text(micro, 6)) == micro
    assert micro_of(f"{scaled_text(micro, 6)}000") == micro, "zeros at the end change nothing"


@given(st.integers(0, MACC_MAX))
def test_accelerators_with_three_decimals_become_thousandths_and_back(macc: int) -> None:
    assert macc_of(accelerators_text(macc).replace(",", "")) == macc


@given(st.integers(0, 10 * 366 * 86_400_000))
def test_times_are_written_as_they_are_read(time_ms: int) -> None:
    assert duration_ms(duration_text(time_ms)) == time_ms


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(sorted(UNITS_MS))), min_size=1),
    st.sampled_from(["", " "]),
)
def test_times_add_up_whatever_units_they_are_in(
    spans: list[tuple[int, str]], between: str
) -> None:
    text = between.join(f"{count}{unit}" for count, unit in spans)
    if len(text) <= 60:
        assert duration_ms(text) == sum(count * UNITS_MS[unit] for count, unit in spans)


@pytest.mark.parametrize(
    ("text", "value"),
    [("90s", 90_000), ("1h 30min", 5_400_000), ("1.5h", 5_400_000), ("0s", 0), ("2d", 172_800_000)],
)
def test_times_have_the_units_that_people_use(text: str, value: int) -> None:
    assert duration_ms(text) == value


@pytest.mark.parametrize("text", ["", "90", "s", "1m", "-1s", "1 week", "1h  2min", "1e3s", "٣s"])
def test_a_time_without_a_known_unit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no time"):
        duration_ms(text)


def test_what_is_finer_than_its_unit_is_refused_not_rounded() -> None:
    with pytest.raises(ValueError, match="no whole number of milliseconds"):
        duration_ms("0.5ms")
    with pytest.raises(ValueError, match="at most 6 decimals"):
        micro_of("0.0000001")
    with pytest.raises(ValueError, match="at most 3 decimals"):
        macc_of("0.0001")


@given(st.text(max_size=80))
def test_any_text_is_a_number_or_a_refusal(text: str) -> None:
    reasons = []
    for read in (micro_of, macc_of, duration_ms):
        try:
            assert read(text) >= 0
        except ValueError as error:
            reasons.append(str(error))
    assert all(len(reason) < 400 for reason in reasons)


@pytest.mark.parametrize("text", ["-1", "1e6", "inf", "nan", "1,000", "0x10", ".5", "1.", "9" * 99])
def test_a_number_that_is_no_plain_decimal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no decimal number"):
        micro_of(text)
