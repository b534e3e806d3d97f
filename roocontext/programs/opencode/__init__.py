"""OpenCode: as its documents say (`opencode`) and as the program does (`opencode-upstream`)."""
