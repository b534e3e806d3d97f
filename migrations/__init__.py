"""The history of the schema. Ships inside the package as `roocontext.migrations`."""
