"""The pages of the server: each is rendered here, and works without a script."""
