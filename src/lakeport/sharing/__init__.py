"""The Delta Sharing protocol on the wire: what its two sides say to each other, as values."""
