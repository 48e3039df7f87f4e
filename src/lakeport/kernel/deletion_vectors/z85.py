"""Z85, Delta's text encoding for bytes in JSON: five characters for every four bytes (ZeroMQ RFC 32)."""

import numpy as np

_ALPHABET = np.frombuffer(
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#", dtype=np.uint8
)
_INVALID = 255
_DIGITS = np.full(256, _INVALID, dtype=np.int64)
_DIGITS[_ALPHABET] = np.arange(85)
_POWERS = 85 ** np.arange(4, -1, -1, dtype=np.int64)


def encode_z85(data: bytes) -> str:
    """Encode `data`, padded with zero bytes to a multiple of four: decoders must know the size."""
    words = np.frombuffer(data + bytes(-len(data) % 4), dtype=">u4").astype(np.int64)
    characters: bytes = _ALPHABET[words[:, None] // _POWERS % 85].tobytes()
    return characters.decode("ascii")


def decode_z85(text: str) -> bytes:
    """Decode a text, including its zero padding. Raises `ValueError`.

    The Rust crate `z85` pads differently: with k bytes missing, it puts k `#` before the last five characters. That is
    unambiguous, as `#` is the highest digit and five characters that start with it exceed four bytes.
    """
    raw = text.encode("ascii")
    if len(raw) % 5:
        raise ValueError(f"Z85 text has {len(raw)} characters, which is not a multiple of 5")
    whole = len(raw) - 5 if raw[-5:].startswith(b"#") else len(raw)
    return _decode_words(raw[:whole]) + _decode_short(raw[whole:])


def _decode_words(raw: bytes) -> bytes:
    digits = _DIGITS[np.frombuffer(raw, dtype=np.uint8)].reshape(-1, 5)
    if (digits == _INVALID).any():
        raise ValueError("text is not Z85: it has characters outside its alphabet")
    words = digits @ _POWERS
    if (words >> 32).any():
        raise ValueError("text is not Z85: five of its characters exceed four bytes")
    return words.astype(">u4").tobytes()


def _decode_short(raw: bytes) -> bytes:
    """The one to three bytes of a group with leading `#` padding; empty for empty input."""
    if not raw:
        return b""
    lacking = len(raw) - len(raw.lstrip(b"#"))
    digits = _DIGITS[np.frombuffer(raw[lacking:], dtype=np.uint8)]
    word = int(digits @ _POWERS[lacking:])
    if lacking > 3 or (digits == _INVALID).any() or word >> 8 * (4 - lacking):
        raise ValueError("text is not Z85: its padding is wrong")
    return word.to_bytes(4 - lacking, "big")
