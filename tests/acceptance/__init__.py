"""Tables that other implementations wrote, and what their own readers return: which there are, how rows are compared,
and which of them a quick run takes. They are in ``tests/corpus``; those in ``../shared`` join them where it exists."""
