"""CRC-32C of bytes that come in pieces."""

from hypothesis import given
from hypothesis import strategies as st

from lakeport.client.sync.crc32c import Crc32c

POLYNOMIAL = 0x1EDC6F41


def checksum(*pieces: bytes) -> str:
    found = Crc32c()
    for piece in pieces:
        found.update(piece)
    return found.digest().hex()


def by_division(data: bytes) -> str:
    """The definition: a division of polynomials, bit by bit, with bits in the order in which they are sent."""
    remainder = 0xFFFFFFFF
    for byte in data:
        for bit in range(8):
            top = (remainder >> 31) ^ (byte >> bit & 1)
            remainder = (remainder << 1 & 0xFFFFFFFF) ^ (POLYNOMIAL if top else 0)
    return f"{int(f'{remainder ^ 0xFFFFFFFF:032b}'[::-1], 2):08x}"


def test_the_checksums_of_known_texts() -> None:
    """RFC 3720, B.4, in the order of bytes in which Google writes them."""
    assert checksum(b"123456789") == "e3069283"
    assert checksum(bytes(32)) == "8a9136aa"
    assert checksum(bytes(range(32))) == "46dd794e"
    assert checksum() == checksum(b"") == "00000000"


@given(st.binary(min_size=1, max_size=50), st.integers(0, 30_000), st.integers(0, 30_000))
def test_pieces_of_any_size_have_the_checksum_of_the_whole(pattern: bytes, size: int, cut: int) -> None:
    data = (pattern * (size // len(pattern) + 1))[:size]
    assert checksum(data[:cut], data[cut:]) == checksum(*(data[i : i + 1000] for i in range(0, size, 1000)))


def test_long_pieces_have_it_too() -> None:
    data = bytes(number * number % 251 for number in range(40_000))
    assert checksum(data) == checksum(data[:9000], data[9000:]) == by_division(data)
