"""Exporters: a module for each format of another program."""
