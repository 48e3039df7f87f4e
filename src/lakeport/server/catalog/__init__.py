"""What is shared, and with whom: the values of the catalog, and where they are kept (YAML or a database)."""
