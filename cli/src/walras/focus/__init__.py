"""Charges, credits and invoices in the form of FOCUS 1.2, the FinOps cost and usage format."""
