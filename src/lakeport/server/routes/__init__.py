"""The routes of the API. They read the request, ask a service, and make the answer; what blocks runs in workers."""
