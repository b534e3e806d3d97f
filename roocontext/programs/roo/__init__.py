"""Roo Code of December 2025 (`roo`) and of April 2026 (`roo-2026`)."""
