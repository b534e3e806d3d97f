"""Markup that a page is made of: text that is safe in it, messages, and templates."""
