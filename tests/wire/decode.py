#!/usr/bin/env python3
"""decode.py - a second reader of the wire of cb_rpc.h and cb_codec.h, written from docs/wire-rpc.md and docs/wire-codec.md alone.

    decode.py read CAPTURE               one JSON object a frame; exit code 1 and `refused: ...` for a breach of a rule
    decode.py compare CAPTURE LOG        the same reading compared with what capture.c's application says; one line
    decode.py changes CAPTURE FOLDER     30 captures with one changed byte each, and FOLDER/list: file side offset value rule
"""
import json
import os
import struct
import sys


class Refused(Exception):
    pass


def refuse(rule, what):
    raise Refused("%s: %s" % (rule, what))


# ---------------------------------------------------------------- numbers, wire-rpc.md section 1

def fnv32(data):
    h = 2166136261
    for byte in data:
        h = (h ^ byte) * 16777619 % 2**32
    return h


class Bytes:
    """A cursor. `at` counts from `base`, the offset of the first byte in what its side sent."""

    def __init__(self, data, base, notes, rule):
        self.data, self.at, self.base, self.notes, self.rule = data, 0, base, notes, rule

    def left(self):
        return len(self.data) - self.at

    def note(self, name, size):
        if self.notes is not None:
            self.notes.append((name, self.base + self.at, size))

    def take(self, size, name):
        if self.left() < size:
            refuse(self.rule, "%s is cut off" % name)
        self.note(name, size)
        out = self.data[self.at:self.at + size]
        self.at += size
        return out

    def u8(self, name):
        return self.take(1, name)[0]

    def uint(self, size, name):
        return int.from_bytes(self.take(size, name), "little")

    def varu(self, name, bits=32):
        value, count = 0, 0
        most = (bits + 6) // 7
        while True:
            if self.left() <= count:
                refuse(self.rule, "%s is cut off" % name)
            byte = self.data[self.at + count]
            value |= (byte & 0x7F) << (7 * count)
            count += 1
            if count == most and (byte & 0x80 or value >> bits):
                refuse("varu", "%s has more than %d bits" % (name, bits))
            if not byte & 0x80:
                break
        if byte == 0 and count > 1:
            refuse("varu", "%s is not in its shortest form" % name)
        self.note(name, count)
        self.at += count
        return value


def utf8(data, rule, name):
    try:
        return data.decode("utf-8")  # strict: no over-long forms, no surrogates
    except UnicodeDecodeError:
        refuse(rule, "%s is not UTF-8" % name)

# ---------------------------------------------------------------- messages, wire-codec.md

SCHEMAS = {  # as capture.c declares them
    "point": [("quant", "x", -8192, 8192, 16), ("flag", "up"), ("quant", "y", 0, 1, 24), ("range", "height", -100, 155)],
    "plain": [("u16", "a"), ("i32", "b")],
    "number": [("i32", "n")],
    "nothing": [],
    "scalars": [("u8", "a"), ("u16", "b"), ("u32", "c"), ("u64", "d"), ("i8", "e"), ("i16", "f"), ("i32", "g"), ("i64", "h"),
                ("f32", "i"), ("f64", "j"), ("varu", "k"), ("vari", "l"), ("flag", "m"), ("range", "n", -5, 5), ("enum", "o", 5),
                ("quant", "p", -1, 1, 1), ("range", "q", -2147483647, 2147483647), ("enum", "r", 256), ("range", "s", 7, 7),
                ("flag", "t")],
    "profile": [("u32", "id"), ("text", "name", 24), ("text", "motto", 300), ("opt", "age", "u8"), ("opt", "at", "point"),
                ("opt", "weight", "f32"), ("opt", "debt", "vari"), ("opt", "well", "flag"), ("enum", "colour", 6),
                ("bytes", "avatar", 16), ("view", "blob", 600), ("list", "scores", "i32", 8), ("list", "sums", "varu", 300),
                ("list", "marks", "flag", 20), ("list", "path", "point", 5), ("list", "pairs", "plain", 4),
                ("nest", "home", "point"), ("list", "big", "f64", 2), ("flag", "last")],
    "words": [("text", "said", 70000)],
}
WIDTH = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f32": 4, "f64": 8}


class Quant:
    """The step that travels; exact() and bits() are the value that the page computes from it."""

    def __init__(self, step, lo, hi, steps):
        self.step, self.lo, self.hi, self.steps = step, lo, hi, steps

    def exact(self):
        return self.lo + self.step * ((self.hi - self.lo) / self.steps)

    def bits(self):
        return "f32:%08x" % struct.unpack("<I", struct.pack("<f", self.exact()))[0]

    def __str__(self):
        return "quant %d %.9g" % (self.step, self.exact())


def bits_of(field):
    """How many bits of the bit block belong to a field."""
    kind = field[0]
    if kind in ("flag", "opt"):
        return 1
    if kind == "range":
        return (field[3] - field[2]).bit_length()
    if kind == "enum":
        return (field[2] - 1).bit_length()
    if kind == "quant":
        return field[4]
    if kind == "nest":
        return sum(bits_of(f) for f in SCHEMAS[field[2]])
    return 0


def length_width(most):
    return 1 if most <= 255 else 2 if most <= 65535 else 4


def element(r, kind, path):
    if kind in WIDTH:
        raw = r.uint(WIDTH[kind], path)
        if kind[0] == "f":
            return "%s:%0*x" % (kind, 2 * WIDTH[kind], raw)
        if kind[0] == "i" and raw >> (8 * WIDTH[kind] - 1):
            raw -= 1 << (8 * WIDTH[kind])
        return raw
    if kind == "varu":
        return r.varu(path, 64)
    if kind == "vari":
        raw = r.varu(path, 64)
        return (raw >> 1) ^ -(raw & 1)
    if kind == "flag":
        raw = r.u8(path)
        if raw > 1:
            refuse("flag", "%s is %d" % (path, raw))
        return raw == 1
    return message(r, kind, path)


def message(r, schema, path):
    """One message where the cursor stands: its bit block, then its bytes."""
    total = sum(bits_of(f) for f in SCHEMAS[schema])
    block = int.from_bytes(r.take((total + 7) // 8, path + " bits"), "little")
    if block >> total:
        refuse("bit block", "%s: unused bits are set" % path)
    bits = [block]

    def take_bits(count):
        value = bits[0] & ((1 << count) - 1)
        bits[0] >>= count
        return value

    return fields(r, schema, path, take_bits)


def bits_values(schema, path, take_bits):
    """The values in the bit block, nests included, in the order of the fields."""
    out = []
    for field in SCHEMAS[schema]:
        kind, name = field[0], path + "." + field[1]
        count = bits_of(field)
        if kind == "nest":
            out.append(bits_values(field[2], name, take_bits))
        elif kind in ("flag", "opt"):
            out.append(take_bits(1) == 1)
        elif kind == "range":
            value = take_bits(count)
            if value > field[3] - field[2]:
                refuse("range", "%s is %d, at most %d" % (name, field[2] + value, field[3]))
            out.append(field[2] + value)
        elif kind == "enum":
            value = take_bits(count)
            if value >= field[2]:
                refuse("enum", "%s is %d, below %d" % (name, value, field[2]))
            out.append(value)
        elif kind == "quant":
            out.append(Quant(take_bits(count), field[2], field[3], (1 << field[4]) - 1))
        else:
            out.append(None)
    return out


def fields(r, schema, path, take_bits, values=None):
    if values is None:
        values = bits_values(schema, path, take_bits)
    out = {}
    for field, value in zip(SCHEMAS[schema], values):
        kind, key = field[0], field[1]
        name = path + "." + key
        if kind in ("text", "bytes", "view"):
            size = r.uint(length_width(field[2]), name + " size")
            if size > field[2]:
                refuse("bound", "%s has %d bytes, at most %d" % (name, size, field[2]))
            data = r.take(size, name)
            if kind == "text":
                out[key] = utf8(data, "text", name)
                if "\0" in out[key]:
                    refuse("text", "%s holds a zero byte" % name)
            else:
                out[key] = data.hex()
        elif kind == "list":
            count = r.uint(length_width(field[3]), name + " count")
            if count > field[3]:
                refuse("bound", "%s has %d elements, at most %d" % (name, count, field[3]))
            if field[2] == "flag":
                block = int.from_bytes(r.take((count + 7) // 8, name), "little")
                if block >> count:
                    refuse("list of flags", "%s: unused bits are set" % name)
                out[key] = [block >> i & 1 == 1 for i in range(count)]
            else:
                out[key] = [element(r, field[2], "%s[%d]" % (name, i)) for i in range(count)]
        elif kind == "opt":
            out[key] = element(r, field[2], name) if value else None
        elif kind == "nest":
            out[key] = fields(r, field[2], name, None, value)
        elif kind in ("flag", "range", "enum", "quant"):
            out[key] = value
        else:
            out[key] = element(r, kind, name)
    return out


def read_value(schema, data, base, notes, path):
    """A whole message: nothing may be left."""
    r = Bytes(data, base, notes, "message")
    out = message(r, schema, path)
    if r.left():
        refuse("message", "%s: %d bytes are left over" % (path, r.left()))
    return out


KINDS = {k: i + 1 for i, k in enumerate(
    "u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 varu vari flag range enum quant text bytes view list opt nest".split())}


def layout_bytes(schema):
    """What the layout hash is of, section 6."""
    out = b""
    for field in SCHEMAS[schema]:
        kind = field[0]
        inner = field[2] if kind in ("list", "opt", "nest") else None
        bound, base, lo, hi = 0, 0, 0.0, 0.0
        if kind == "range":
            bound, base = field[3] - field[2], field[2]
        elif kind == "enum":
            bound = field[2] - 1
        elif kind in ("text", "bytes", "view"):
            bound = field[2]
        elif kind == "list":
            bound = field[3]
        elif kind == "opt":
            bound = 1
        elif kind == "quant":
            lo, hi = float(field[2]), float(field[3])
        out += struct.pack("<BBBIi", KINDS[kind], KINDS.get(inner, 22) if inner else 0, 0 if kind == "nest" else bits_of(field),
                           bound, base)
        out += struct.pack("<dd", lo, hi) if kind == "quant" else bytes(16)
        if inner in SCHEMAS:
            out += layout_bytes(inner)
    return out + b"\xff"


def layout_hash(schema):
    h = 0xcbf29ce484222325
    for byte in layout_bytes(schema):
        h = (h ^ byte) * 0x100000001b3 % 2**64
    return h


def describe(schema):
    """The text of a layout: NAME:KIND PARAMETERS between commas, structs in braces."""
    out = []
    for field in SCHEMAS[schema]:
        words = ["{%s}" % describe(w) if w in SCHEMAS else str(w) for w in field[2:]]
        out.append("%s:%s%s" % (field[1], field[0], "".join(w if w[0] == "{" else " " + w for w in words)))
    return ",".join(out)


# ---------------------------------------------------------------- the contract of capture.c

METHODS = {  # name: (arguments, answer or None)
    "a": {
        "twice": ("number", "number"), "echo_scalars": ("scalars", "scalars"), "echo_profile": ("profile", "profile"),
        "later": ("number", "profile"), "refuse": ("words", "number"), "echo_words": ("words", "words"),
        "nothing_at_all": ("nothing", "nothing"), "missing": ("number", "number"), "altered": ("point", "number"),
        "an_event_there": ("number", "number"), "unhandled": ("number", "number"), "noticed": ("profile", None),
        "a_call_there": ("number", None), "noticed_altered": ("point", None), "noticed_missing": ("number", None),
        "tick": ("nothing", None),
    },
    "b": {
        "twice": ("number", "number"), "echo_scalars": ("scalars", "scalars"), "echo_profile": ("profile", "profile"),
        "later": ("number", "profile"), "refuse": ("words", "number"), "echo_words": ("words", "words"),
        "nothing_at_all": ("nothing", "nothing"), "missing_b": ("number", "number"), "altered": ("scalars", "number"),
        "an_event_there": ("number", None), "unhandled": ("number", "number"), "noticed": ("profile", None),
        "a_call_there": ("number", "nothing"), "noticed_altered": ("number", None), "tick": ("nothing", None),
    },
}


# ---------------------------------------------------------------- frames, wire-rpc.md sections 2 to 7

class Side:
    def __init__(self, name):
        self.name = name
        self.hello = None
        self.methods = {}     # number: (is_event, name)
        self.layouts = {}     # name hash: (is_event, layout hash)
        self.buffer = b""     # what came and is not used up
        self.base = 0         # offset of its first byte
        self.open = {}        # id: call that waits for its end
        self.last = {}        # id: the last call with it
        self.calls = []


class Session:
    def __init__(self, is_messages, notes):
        self.sides = [Side("a"), Side("b")]
        self.is_messages = is_messages
        self.notes = notes    # list of (side, frame kind, [(field, offset, size)...]) or None
        self.frames = []

    def piece(self, index, data):
        side = self.sides[index]
        side.buffer += data
        if self.is_messages:
            self.frame(index, side.buffer, side.base, [])
            side.base += len(side.buffer)
            side.buffer = b""
            return
        while side.buffer:
            notes = []
            count = 1
            while side.buffer[count - 1] & 0x80:
                if count == 5:
                    refuse("varu", "length has more than 32 bits")
                if count == len(side.buffer):
                    return
                count += 1
            r = Bytes(side.buffer, side.base, notes, "frame")
            length = r.varu("length")
            if length < 1:
                refuse("frame", "a length of 0")
            reader = self.sides[1 - index]
            bound = reader.hello["frame_bytes_max"] if reader.hello else 16384
            if side.hello is None:
                bound = max(bound, 16384)
            if length > bound:
                refuse("frame_bytes_max", "a frame of %d bytes, at most %d" % (length, bound))
            if r.left() < length:
                return
            self.frame(index, side.buffer[r.at:r.at + length], side.base + r.at, notes)
            side.base += r.at + length
            side.buffer = side.buffer[r.at + length:]

    def frame(self, index, data, base, notes):
        side = self.sides[index]
        r = Bytes(data, base, notes, "frame")
        kind = r.varu("kind")
        if side.hello is None and kind != 0:
            refuse("hello", "the first frame is of kind %d" % kind)
        if side.hello is not None and kind == 0:
            refuse("hello", "a second one")
        if 4 <= kind <= 15:
            refuse("frame", "kind %d is unused" % kind)
        name = ["hello", "answer", "refusal", "cancel"][kind] if kind < 4 else "method"
        r.rule = name
        frame = {"side": side.name}
        frame.update(self.method(index, kind - 15, r) if kind > 15 else getattr(self, name)(index, r))
        self.frames.append(frame)
        if self.notes is not None:
            self.notes.append((side.name, frame, notes))

    def hello(self, index, r):
        side = self.sides[index]
        if r.take(3, "magic") != b"cbr":
            refuse("magic", "it is not cbr")
        version = r.u8("version")
        if version == 0:
            refuse("version", "it is 0")
        capabilities = r.varu("capabilities")
        frame_bytes_max = r.varu("frame_bytes_max")
        if frame_bytes_max < 64:
            refuse("hello", "frame_bytes_max is %d, at least 64" % frame_bytes_max)
        calls_max = r.varu("calls_max")
        count = r.varu("count")
        names = {fnv32(n.encode()): n for n in METHODS[side.name]}
        last, methods = 0, []
        for _ in range(count):
            number, is_call = divmod(r.varu("number_and_kind"), 2)
            name_hash, layout = r.uint(4, "name_hash"), r.uint(4, "layout_hash")
            if number <= last:
                refuse("hello", "method number %d behind %d" % (number, last))
            if number > 1023:
                refuse("hello", "method number %d" % number)
            last = number
            if name_hash not in names:
                refuse("name_hash", "%08x is no method's of side %s" % (name_hash, side.name))
            name = names[name_hash]
            args, reply = METHODS[side.name][name]
            if (reply is None) != (not is_call):
                refuse("hello", "%s is of the other kind" % name)
            both = layout_hash(args).to_bytes(8, "little") + (layout_hash(reply) if reply else 0).to_bytes(8, "little")
            if layout != fnv32(both):
                refuse("layout_hash", "%s has %08x, computed %08x" % (name, layout, fnv32(both)))
            side.methods[number] = (not is_call, name)
            side.layouts[name] = (not is_call, layout)
            methods.append({"number": number, "is_event": not is_call, "name": name, "args": "%016x" % layout_hash(args),
                            "reply": "%016x" % (layout_hash(reply) if reply else 0)})
        side.hello = {"did": "hello", "frame_bytes_max": frame_bytes_max, "calls_max": calls_max, "methods": methods}
        if capabilities:
            side.hello["capabilities"] = capabilities
        if version > 1:
            side.hello["version"] = version
        r.take(r.left(), "later versions")
        return side.hello

    def method(self, index, number, r):
        side, peer = self.sides[index], self.sides[1 - index]
        if number not in side.methods:
            refuse("method", "number %d did not stand in the hello" % number)
        is_event, name = side.methods[number]
        args_type = METHODS[side.name][name][0]
        if is_event:
            args = read_value(args_type, r.data[r.at:], r.base + r.at, r.notes, "args")
            return {"did": "sent_event", "method": name, "args": args}
        call_id, has_deadline = divmod(r.varu("id_and_mark"), 2)
        deadline = r.varu("deadline_ms") if has_deadline else None
        if call_id in side.open:
            refuse("call", "id %d still waits for its answer" % call_id)
        call = {"did": "sent", "call": len(side.calls), "id": call_id, "method": name, "deadline_ms": deadline}
        try:
            call["args"] = read_value(args_type, r.data[r.at:], r.base + r.at, r.notes, "args")
        except Refused as why: # right where it is refused with code 4; see end_of
            call["args"] = "unreadable"
            call["why"] = str(why)
        side.calls.append(call)
        side.open[call_id] = side.last[call_id] = call
        return call

    def end_of(self, index, r):
        """The call of the other side that an answer or refusal ends."""
        caller = self.sides[1 - index]
        call_id = r.varu("id")
        if call_id not in caller.open:
            refuse(r.rule, "id %d has no open call" % call_id)
        return caller.open.pop(call_id)

    def match(self, index, name):
        """How side `index`, which is called, sees the other side's method: same, differs, unknown."""
        called, caller = self.sides[index], self.sides[1 - index]
        if name not in called.layouts:
            return "unknown"
        return "same" if called.layouts[name] == caller.layouts[name] else "differs"

    def answer(self, index, r):
        call = self.end_of(index, r)
        if call["args"] == "unreadable":
            refuse(call["why"], "and yet the call was answered")
        if self.match(index, call["method"]) != "same":
            refuse("section 3", "an answer although the method is unknown or differs")
        if call["deadline_ms"] == 0:
            refuse("deadline", "an answer although it was 0")
        reply = METHODS[self.sides[1 - index].name][call["method"]][1]
        value = read_value(reply, r.data[r.at:], r.base + r.at, r.notes, "value")
        return {"did": "answer", "call": call["call"], "id": call["id"], "value": value}

    def refusal(self, index, r):
        call = self.end_of(index, r)
        code = r.u8("code")
        code = code if code <= 8 else 0
        text = r.take(r.left(), "text")
        if len(text) > 200:
            refuse("refusal", "a text of %d bytes, at most 200" % len(text))
        text = utf8(text, "refusal", "text")
        if text and code in (2, 5, 6, 7, 8):
            refuse("refusal", "code %d has no text" % code)
        match = self.match(index, call["method"])
        if (match == "differs") != (code == 3):
            refuse("refusal", "code %d for a method that is %s" % (code, match))
        if match == "unknown" and code != 2:
            refuse("refusal", "code %d for an unknown method" % code)
        if match == "same" and code not in (2, 5) and (call["args"] == "unreadable") != (code == 4):
            refuse(call.get("why", "arguments"), "and the call was refused with code %d" % code)
        if code == 3:
            own = METHODS[self.sides[index].name][call["method"]]
            want = describe(own[0]) + (">" + describe(own[1]) if own[1] else "")
            if text != want[:200]:
                refuse("refusal", "the description is '%s', expected '%s'" % (text, want[:200]))
        return {"did": "refusal", "call": call["call"], "id": call["id"], "code": code, "reason": text}

    def cancel(self, index, r):
        side = self.sides[index]
        call_id, code = r.varu("id"), r.u8("code")
        if code not in (6, 8):
            refuse("cancel", "code %d" % code)
        if r.left():
            refuse("cancel", "%d bytes follow" % r.left())
        if call_id not in side.last:
            refuse("cancel", "id %d was never used" % call_id)
        return {"did": "cancelled", "call": side.last[call_id]["call"], "id": call_id, "code": code}

    def end(self):
        for side in self.sides:
            if side.buffer:
                refuse("frame", "the capture of %s ends inside one" % side.name)
            if side.open:
                refuse("answer", "%d calls of %s were never answered" % (len(side.open), side.name))


# ---------------------------------------------------------------- captures

def pieces_of(data):
    if data[:7] != b"cbcap1\n" or data[7:8] not in (b"s", b"m"):
        sys.exit("not a capture")
    at = 8
    while at < len(data):
        index, _, size = struct.unpack_from("<BQI", data, at)
        yield index, at + 13, size
        at += 13 + size


def read(path, notes=None):
    with open(path, "rb") as f:
        data = f.read()
    session = Session(data[7:8] == b"m", notes)
    for index, at, size in pieces_of(data):
        session.piece(index, data[at:at + size])
    session.end()
    return session


def plain(value):
    """For JSON: quants as `quant STEP VALUE`."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return str(value) if isinstance(value, Quant) else value


# ---------------------------------------------------------------- compare with the application's log

class Differs(Exception):
    pass


def same(log, wire, exact, where):
    """log: of the application. exact: it read the value itself, so that quants are what the page computes."""
    if isinstance(wire, Quant):
        x = struct.unpack("<f", bytes.fromhex(log[4:])[::-1])[0]
        if exact:
            ok = wire.bits() == log
        else:
            step = (wire.hi - wire.lo) / wire.steps
            clamped = min(max(x, wire.lo), wire.hi)
            ok = abs(clamped - wire.exact()) <= step / 2 * 1.0001 + abs(clamped) * 2**-23
    elif isinstance(wire, dict):
        ok = isinstance(log, dict) and list(log) == list(wire)
        if ok:
            for k in wire:
                same(log[k], wire[k], exact, where + "." + k)
    elif isinstance(wire, list):
        ok = isinstance(log, list) and len(log) == len(wire)
        if ok:
            for i, w in enumerate(wire):
                same(log[i], w, exact, "%s[%d]" % (where, i))
    else:
        ok = log == wire and type(log) is type(wire)
    if not ok:
        raise Differs("%s: the log has %s, the wire %s" % (where, json.dumps(log)[:200], json.dumps(plain(wire))[:200]))


STATUS = ["E_REFUSED", "E_HANDLER", "E_UNKNOWN_METHOD", "E_LAYOUT", "E_ARGUMENTS", "E_PEER_BUSY", "E_PEER_TIMEOUT",
          "E_ANSWER_TOO_BIG", "E_CANCELLED"]


def pair_up(what, log, wire, exact, keys):
    if len(log) != len(wire):
        raise Differs("%s: %d in the log, %d on the wire" % (what, len(log), len(wire)))
    for i, (g, w) in enumerate(zip(log, wire)):
        for k in keys:
            if k in g or k in w:
                same(g.get(k), w.get(k), exact, "%s %d (%s): %s" % (what, i, w.get("method", w.get("call")), k))
    return len(log)


def compare(session, lines):
    total = 0
    for me, peer in ((0, 1), (1, 0)):
        a, b = session.sides[me], session.sides[peer].name
        mine = [f for f in session.frames if f["side"] == a.name]
        of = lambda name, *dids: [g for g in lines if g["side"] == name and g["did"] in dids]
        kinds = ("hello", "sent", "sent_event", "cancelled")
        total += pair_up(a.name + " sent", of(a.name, *kinds), [f for f in mine if f["did"] in kinds], False,
                         ("did", "call", "method", "deadline_ms", "args", "code", "frame_bytes_max", "calls_max", "methods", "capabilities"))
        ends = [f for f in session.frames if f["side"] == b and f["did"] in ("answer", "refusal")]
        end_of_call = {f["call"]: f for f in ends}
        # what the other side's application saw of it
        ran = [f for f in mine if f["did"] == "sent" and not (end_of_call[f["call"]]["did"] == "refusal" and
                                                              end_of_call[f["call"]]["code"] in (2, 3, 4, 5))]
        total += pair_up(b + " got", of(b, "got"), ran, True, ("id", "method", "deadline_ms", "args"))
        events = [f for f in mine if f["did"] == "sent_event" and session.match(peer, f["method"]) == "same"]
        total += pair_up(b + " got events", of(b, "got_event"), events, True, ("method", "args"))
        # what it answered
        gave = of(b, "gave", "refused")
        answered = [f for f in ends if f["did"] == "answer" or f["code"] in (0, 1, 7)]
        for g, f in zip(gave, answered):
            if f["did"] == "refusal" and f["code"] == 7 and g["did"] == "gave":
                g.pop("value") # it was too long to be sent
                g["code"], g["reason"] = 7, ""
        total += pair_up(b + " gave", gave, answered, False, ("id", "value", "code", "reason"))
        gone = [f for f in ends if f["did"] == "refusal" and f["code"] in (6, 8)]
        total += pair_up(b + " lost", of(b, "gone"), gone, False, ("id", "code"))
        # what it was told
        told = of(a.name, "told")
        if sorted(g["call"] for g in told) != list(range(len(a.calls))):
            raise Differs("%s: not every call was told once" % a.name)
        local = {g["call"]: g for g in told if g["status"] in ("E_CANCELLED", "E_TIMEOUT")}
        cancels = {f["call"]: f["code"] for f in mine if f["did"] == "cancelled"}
        if cancels != {c: 8 if g["status"] == "E_CANCELLED" else 6 for c, g in local.items()}:
            raise Differs("%s: cancels on the wire and calls that ended here are not the same" % a.name)
        seen = [dict(f, status="OK" if f["did"] == "answer" else STATUS[f["code"]]) for f in ends if f["call"] not in local]
        here = [g for g in told if g["call"] not in local]
        total += pair_up(a.name + " told", here, seen, True, ("call", "status", "value"))
        for g, f in zip(here, seen):
            if f["did"] == "refusal" and f["code"] in (0, 1, 4) and f["reason"] and g["reason"] != f["reason"]:
                raise Differs("%s told: '%s', on the wire '%s'" % (a.name, g["reason"], f["reason"]))
    return total


# ---------------------------------------------------------------- changed captures

class Chosen:
    """A field of a frame in the capture, by what the frame did and the field's name."""

    def __init__(self, notes, data, side, did, field, test=None, skip=60):
        if did == "hello":
            skip = 0
        for at, (s, frame, fields) in enumerate(notes):
            if at < skip or frame["did"] != did or (side and s != side) or frame.get("args") == "unreadable":
                continue
            for name, offset, size in fields:
                raw = data[s][offset:offset + size]
                if name == field and (test is None or test(frame, raw)):
                    self.side, self.offset, self.raw, self.frame = s, offset, raw, frame
                    return
        sys.exit("no %s.%s in this capture" % (did, field))


def changes_of(session, data):
    """(what, side, offset, new value, rule): each breaks one rule of the pages."""
    notes = session.notes
    out = []

    def add(what, rule, side, did, field, new, at=0, test=None):
        """new: from the old byte to the new one; at: which byte of the field, -1 the last."""
        c = Chosen(notes, data, side, did, field, test)
        at %= len(c.raw)
        value = new(c.raw[at])
        assert value != c.raw[at], what
        out.append((what, c.side, c.offset + at, value, rule))

    is_ = lambda method: lambda f, raw: f.get("method") == method
    two = lambda f, raw: len(raw) == 2
    add("magic", "magic", "a", "hello", "magic", lambda b: b ^ 1, 1)
    add("version 0", "version", "b", "hello", "version", lambda b: 0)
    add("a hello of kind 1", "hello", "a", "hello", "kind", lambda b: 1)
    add("frame_bytes_max longer than it needs", "varu", "a", "hello", "frame_bytes_max", lambda b: 0, 1)
    add("frame_bytes_max of 63", "hello", "a", "hello", "frame_bytes_max", lambda b: 63)
    add("one method more than there are", "hello", "b", "hello", "count", lambda b: b + 1)
    add("method number 0", "hello", "a", "hello", "number_and_kind", lambda b: 1)
    add("a method number twice", "hello", "a", "hello", "number_and_kind", lambda b: 3, 0, lambda f, raw: raw == b"\x05")
    add("a method number above 1,023", "hello", "a", "hello", "number_and_kind", lambda b: 0x10, 1, lambda f, raw: raw == b"\xfe\x0f")
    add("a length of 0", "frame", "a", "sent", "length", lambda b: 0)
    add("a length longer than it needs", "varu", "a", "sent", "length", lambda b: 0, 1, two)
    add("a length above frame_bytes_max", "frame_bytes_max", "b", "answer", "length", lambda b: 0x7F, 1, two)
    add("kind 4", "frame", "b", "answer", "kind", lambda b: 4)
    add("kind 15", "frame", "a", "sent", "kind", lambda b: 15, 0, lambda f, raw: len(raw) == 1)
    add("a second hello", "hello", "b", "answer", "kind", lambda b: 0)
    add("a method that the hello did not name", "method", "a", "sent", "kind", lambda b: 0x6F, 0, lambda f, raw: len(raw) == 1)
    add("an answer to no call", "answer", "b", "answer", "id", lambda b: 0x7F, 0, lambda f, raw: len(raw) == 1)
    add("a refusal of no call", "refusal", "b", "refusal", "id", lambda b: 0x7F, 0, lambda f, raw: len(raw) == 1)
    add("a cancel with code 7", "cancel", "a", "cancelled", "code", lambda b: 7)
    add("a cancel that goes on", "cancel", "a", "cancelled", "length", lambda b: b + 1)
    add("a deadline longer than it needs", "varu", "a", "sent", "deadline_ms", lambda b: 0, -1, lambda f, raw: len(raw) > 1)
    add("a text above its bound", "bound", "a", "sent", "args.name size", lambda b: 25)
    add("a text that is not UTF-8", "text", "a", "sent", "args.name", lambda b: 0xFF, 0, lambda f, raw: len(raw) > 3)
    add("a zero byte in a text", "text", "b", "answer", "value.motto", lambda b: 0, -1, lambda f, raw: raw[-1:].isalpha())
    add("a count above its bound", "bound", "a", "sent", "args.scores count", lambda b: 9)
    add("unused bits of a list of flags", "list of flags", "a", "sent", "args.marks", lambda b: b | 0x80, -1,
        lambda f, raw: len(f["args"]["marks"]) % 8 and raw)
    add("unused bits of a bit block", "bit block", "a", "sent", "args bits", lambda b: b | 0x80, -1, is_("echo_scalars"))
    add("an enum above its values", "enum", "b", "answer", "value bits", lambda b: b | 0xE0, 0,
        lambda f, raw: "colour" in f["value"])
    add("a range above its bound", "range", "a", "sent", "args bits", lambda b: b | 0x1E, 0, is_("echo_scalars"))
    add("a flag of 2", "flag", "a", "sent", "args.well", lambda b: 2)
    return out


def changes(path, folder):
    notes = []
    session = read(path, notes)
    with open(path, "rb") as f:
        data = f.read()
    sent, place = {"a": b"", "b": b""}, {"a": [], "b": []}
    for index, at, size in pieces_of(data):
        place["ab"[index]].append((len(sent["ab"[index]]), at))
        sent["ab"[index]] += data[at:at + size]
    chosen = changes_of(session, sent)
    with open(os.path.join(folder, "list"), "w") as f:
        for n, (what, side, offset, value, rule) in enumerate(chosen, 1):
            begin, at = max(p for p in place[side] if p[0] <= offset)
            changed = bytearray(data)
            changed[at + offset - begin] = value
            name = "changed%02d" % n
            with open(os.path.join(folder, name), "wb") as out:
                out.write(changed)
            f.write("%s\t%s\t%d\t%d\t%s\t%s\n" % (name, side, offset, value, rule, what))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    what = sys.argv[1]
    try:
        if what == "read":
            for frame in read(sys.argv[2]).frames:
                print(json.dumps(plain(frame), ensure_ascii=False))
        elif what == "compare":
            session = read(sys.argv[2])
            with open(sys.argv[3], encoding="utf-8") as f:
                lines = [json.loads(line) for line in f]
            print("same: %d calls, %d frames, %d lines of the log" %
                  (sum(len(s.calls) for s in session.sides), len(session.frames), compare(session, lines)))
        elif what == "changes":
            changes(sys.argv[2], sys.argv[3])
    except Refused as why:
        print("refused: %s" % why)
        sys.exit(1)
    except Differs as why:
        print("differs: %s" % why)
        sys.exit(1)


main()
