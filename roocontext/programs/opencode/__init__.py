"""OpenCode as documented (`opencode`) and as the program behaves (`opencode-upstream`)."""
