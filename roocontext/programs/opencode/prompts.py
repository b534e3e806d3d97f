"""The program's prompt for a summary, in our own words."""

from importlib.resources import files
from typing import Final

from roocontext.summarisers.prompts import read_prompt

PROMPT: Final = read_prompt(files(__package__) / "prompt.md")
