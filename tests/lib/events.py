"""Events of a recording as /v1/recordings/{id}/events sends them: each alone (docs/recording-format.md, "Events")."""

DATA, EXIT, GAP, MISSING = 2, 5, 64, 65


def leb(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def zigzag(v):
    return (v >> 1) ^ -(v & 1)


def decode(data):
    """Yields (type, stream, flags, seq, ns, offset, payload)."""
    at = 0
    while at < len(data):
        kind, stream = data[at], data[at + 1]
        at += 2
        fields = []
        for _ in range(5):
            value, at = leb(data, at)
            fields.append(value)
        flags, size, seq, ns, offset = fields
        yield kind, stream, flags, zigzag(seq), zigzag(ns), zigzag(offset), data[at:at + size]
        at += size
