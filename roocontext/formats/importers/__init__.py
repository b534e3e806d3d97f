"""Importers: a module for each tool."""
