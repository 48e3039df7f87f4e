"""The routes of the API. They parse requests, call services and format responses; blocking work runs in threads."""
