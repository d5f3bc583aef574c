"""What the money commands refuse."""


class BillingLogError(Exception):
    """The log or the files do not give what was asked for; the text is for the user."""

    code = "billing_log"
    retriable = False
