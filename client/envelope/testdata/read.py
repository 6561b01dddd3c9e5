#!/usr/bin/env python3
"""Reads packs of docs/client-envelope.md: read.py FILE.hex ... prints one line of JSON for each file."""
import json, struct, sys

TEXTS = {1: "id", 2: "contentType", 3: "contentEncoding", 4: "correlationId", 5: "replyTo", 6: "type", 7: "appId"}
FIXED = {"t": "?", "b": "b", "B": "B", "s": ">h", "u": ">H", "I": ">i", "i": ">I", "f": ">f", "l": ">q", "d": ">d", "T": ">q"}
TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    TABLE.append(n)

class Corrupt(Exception): pass
class UnknownVersion(Exception): pass

def need(truth):
    if not truth: raise Corrupt

def crc32c(data):
    crc = 0xFFFFFFFF
    for b in data:
        crc = crc >> 8 ^ TABLE[(crc ^ b) & 0xFF]
    return crc ^ 0xFFFFFFFF

class Reader:
    def __init__(self, data): self.data, self.at = data, 0
    def more(self): return self.at < len(self.data)
    def take(self, n):
        need(n <= len(self.data) - self.at)
        self.at += n
        return self.data[self.at - n:self.at]
    def number(self, form): return struct.unpack(form, self.take(struct.calcsize(form)))[0]
    def varint(self):
        n = 0
        for i in range(5):
            b = self.take(1)[0]
            n |= (b & 0x7F) << 7 * i
            if b < 0x80:
                need((b or not i) and n < 1 << 32)
                return n
        raise Corrupt
    def block(self): return self.take(self.varint())
    def long(self): return self.take(self.number(">I"))

def text(b): return b.decode("utf-8", "surrogateescape")

def value(r):
    kind = chr(r.take(1)[0])
    if kind == "V": return ["V", None]
    if kind == "S": return ["S", text(r.long())]
    if kind == "x": return ["x", r.long().hex()]
    if kind == "F": return ["F", table(Reader(r.long()))]
    if kind == "A":
        inner, array = Reader(r.long()), []
        while inner.more(): array.append(value(inner))
        return ["A", array]
    need(kind in FIXED)
    if kind == "t": need(r.data[r.at:r.at + 1] in (b"\0", b"\1"))
    n = r.number(FIXED[kind])
    return [kind, str(n) if kind in "lT" else n]  # as text where JSON has too few digits

def table(r):
    entries, last = {}, None
    while r.more():
        key = r.take(r.number("B"))
        need(last is None or key > last)
        last, entries[text(key)] = key, value(r)
    return entries

def message(r):
    m, last, props = {}, 0, Reader(r.block())
    while props.more():
        tag, field = props.number("B"), Reader(props.block())
        need(tag > last)
        last = tag
        if tag in TEXTS:
            need(len(field.data) <= 255)
            m[TEXTS[tag]] = text(field.data)
        elif tag == 8: m["timestamp"] = field.number(">q")
        elif tag == 9: m["headers"] = table(Reader(field.long()))
        need(tag > 9 or tag in TEXTS or not field.more())
    m["body"] = r.block().hex()
    return m

def unpack(data):
    need(data[:4] == b"\xf7WPK" and len(data) >= 6)
    if data[4:6] != b"\1\0": raise UnknownVersion  # an error to report: never drop the message
    need(len(data) >= 14 and crc32c(data[:-4]) == struct.unpack(">I", data[-4:])[0])
    r, (count,) = Reader(data[10:-4]), struct.unpack(">I", data[6:10])
    need(0 < count <= len(r.data) // 2)
    messages = [message(r) for _ in range(count)]
    need(not r.more())
    return messages

for name in sys.argv[1:]:
    try: print(json.dumps({"messages": unpack(bytes.fromhex(open(name).read()))}))
    except UnknownVersion: print('{"error": "version"}')
    except Corrupt: print('{"error": "corrupt"}')
