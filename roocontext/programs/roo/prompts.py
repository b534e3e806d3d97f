"""The program's prompt for a summary, in our own words."""

from importlib.resources import files
from typing import Final

from roocontext.summarisers.prompts import read_prompt

DECEMBER_2025: Final = read_prompt(files(__package__) / "prompt_2025.md")
APRIL_2026: Final = read_prompt(files(__package__) / "prompt_2026.md")
