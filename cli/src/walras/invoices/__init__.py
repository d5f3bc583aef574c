"""Invoices as people read them: lists, JSON, HTML and PDF pages; what finance asks for."""
