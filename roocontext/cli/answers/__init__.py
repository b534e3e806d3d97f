"""What a command answers: the documents that `--json` prints, and how they are made."""
