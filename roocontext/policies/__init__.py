"""What is hidden or cleared, and when: pure functions from a situation to a decision."""
