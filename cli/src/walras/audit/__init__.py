"""The audit: charges, ledger, wallets, budgets, invoices recomputed from what they are made of.

Nothing here knows the services that are audited: the rules are written down a second time, as plain
as they can be, from `docs/audit.md`.
"""

from walras.audit.audit_rules import AuditRules
from walras.audit.auditing import audit
from walras.audit.log_view import AuditError, AuditLog, MemoryAuditLog
from walras.audit.report import AuditReport, Difference

__all__ = [
    "AuditError",
    "AuditLog",
    "AuditReport",
    "AuditRules",
    "Difference",
    "MemoryAuditLog",
    "audit",
]
