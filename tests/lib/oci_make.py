#!/usr/bin/env python3
"""OCI image archives for the tests: two good ones, and those that mean harm.

  oci_make.py good OUT NAME [--dir] [--zstd] [--home TARGET]   a small image whose /etc/image-name is NAME; prints its digest
  oci_make.py big OUT                          an image that takes a second to unpack
  oci_make.py hostile OUTDIR                   one archive a line: FILE DIGEST WHAT-THE-ERROR-SAYS
"""
import gzip
import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import tarfile

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
LAYER = "application/vnd.oci.image.layer.v1.tar"


def member(tar, name, content=b"", kind=tarfile.REGTYPE, mode=0o644, to="", pax=None, major=0):
    """One member, with whatever name and kind it is given."""
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.size, info.linkname = kind, mode, len(content), to
    info.devmajor = info.devminor = major
    if pax:
        info.pax_headers = pax
    tar.addfile(info, io.BytesIO(content) if content else None)


def layer(*members, fmt=tarfile.PAX_FORMAT):
    """A tar of members, each a tuple or dict of member()'s arguments."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=fmt) as tar:
        for each in members:
            member(tar, **each) if isinstance(each, dict) else member(tar, *each)
    return out.getvalue()


def sha(data):
    return hashlib.sha256(data).hexdigest()


class Image:
    """Blobs by digest, and what index.json names."""

    def __init__(self, layers, packing="gzip", arch=ARCH, config=None, diffs=None, manifest=None):
        self.blobs = {}
        self.names = []
        described = []
        for data in layers:
            raw = data if isinstance(data, bytes) else data[0]
            packed = raw
            if packing == "gzip":
                packed = gzip.compress(raw, 1, mtime=0)
            elif packing == "zstd":
                packed = subprocess.run(["zstd", "-q", "-c"], input=raw, stdout=subprocess.PIPE, check=True).stdout
            kind = LAYER if packing == "plain" else LAYER + "+" + packing
            described.append({"mediaType": kind, "digest": "sha256:" + self.put(packed), "size": len(packed)})
        told = {"architecture": arch, "os": "linux", "config": config or {},
                "rootfs": {"type": "layers",
                           "diff_ids": diffs or ["sha256:" + sha(d) for d in layers]}}
        text = json.dumps(told).encode()
        m = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
             "config": {"mediaType": "application/vnd.oci.image.config.v1+json",
                        "digest": "sha256:" + self.put(text), "size": len(text)}, "layers": described}
        m.update(manifest or {})
        self.text = json.dumps(m).encode()
        self.digest = self.put(self.text)

    def put(self, data):
        self.blobs[sha(data)] = data
        return sha(data)

    def files(self):
        index = {"schemaVersion": 2, "manifests": [
            {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "sha256:" + self.digest,
             "size": len(self.blobs.get(self.digest, b"")), "platform": {"architecture": ARCH, "os": "linux"}}]}
        yield "oci-layout", b'{"imageLayoutVersion":"1.0.0"}'
        for digest, data in self.blobs.items():
            yield "blobs/sha256/" + digest, data
        yield "index.json", json.dumps(index).encode()

    def save(self, path):
        with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
            for name, data in self.files():
                member(tar, name, data)

    def save_dir(self, path):
        for name, data in self.files():
            at = os.path.join(path, name)
            os.makedirs(os.path.dirname(at), exist_ok=True)
            with open(at, "wb") as f:
                f.write(data)


DIR = tarfile.DIRTYPE
LINK = tarfile.SYMTYPE
HARD = tarfile.LNKTYPE


def libraries(program):
    """What the linker finds for it; of a static program, as muxlet is but for a sanitizer, nothing."""
    said = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, text=True).stdout
    paths = (line.split("=>")[-1].split("(")[0].strip() for line in said.splitlines())
    return [path for path in paths if path.startswith("/")]


def programs():
    """A shell and cat with the libraries that they and muxlet need, as members."""
    muxlet = os.path.join(os.environ.get("BUILD", "build"), "muxlet")
    seen = {}
    for program in ("/bin/sh", "/bin/cat", "/bin/ls", "/usr/bin/touch", "/usr/bin/env", "/bin/sleep", "/usr/bin/stat",
                    "/usr/bin/id"):
        real = os.path.realpath(program)
        with open(real, "rb") as f:
            seen["bin/" + os.path.basename(program)] = f.read()
        for path in [*libraries(real), *libraries(muxlet)]:
            with open(os.path.realpath(path), "rb") as f:
                seen[path.lstrip("/")] = f.read()
    made, out = set(), []
    for path in sorted(seen):
        parts = path.split("/")
        for i in range(1, len(parts)):
            above = "/".join(parts[:i])
            if above not in made:
                made.add(above)
                out.append((above, b"", DIR, 0o755))
        out.append((path, seen[path], tarfile.REGTYPE, 0o755))
    return out


def good(name, packing, home=None):
    more = [("home", b"", LINK, 0o777, home)] if home else []
    base = layer(*more, *programs(), ("etc", b"", DIR, 0o755), ("etc/image-name", b"below\n"), ("etc/gone", b"x"),
                 ("opt", b"", DIR, 0o700), ("opt/a", b"one"), ("opt/set", b"s", tarfile.REGTYPE, 0o4755),
                 ("opt/same", b"", HARD, 0o644, "opt/a"), ("srv", b"", LINK, 0o777, "opt"))
    over = layer(("etc", b"", DIR, 0o755), ("etc/image-name", name.encode() + b"\n"), ("etc/.wh.gone", b""))
    return Image([base, over], packing, config={"Env": ["IMAGE=" + name, "HOME=/root", "PATH=/opt/bin:/bin"],
                                               "User": "0:0", "WorkingDir": "/srv"})


def mangled(image, change):
    """The archive as bytes, changed."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in image.files():
            member(tar, name, data)
    return change(out.getvalue())


def nested(depth):
    """Indexes of indexes, the outermost one's digest last."""
    image = Image([layer(("a", b"x"))])
    inner = {"digest": "sha256:" + image.digest, "size": len(image.text)}
    for _ in range(depth):
        text = json.dumps({"manifests": [inner]}).encode()
        image.digest = image.put(text)
        inner = {"digest": "sha256:" + image.digest, "size": len(text)}
    return image


def top(text):
    """An image whose first text is this one."""
    image = Image([layer(("a", b"x"))])
    image.digest = image.put(text)
    return image


def without(image, which):
    del image.blobs[which]
    return image


def spoiled(image):
    """A layer that is another one of the same length."""
    for digest, data in image.blobs.items():
        if data[:2] == b"\x1f\x8b":
            image.blobs[digest] = data[:-1] + bytes([data[-1] ^ 1])
    return image


def sparse_bomb():
    """A file of 4 EiB in a GNU sparse member of no content."""
    head = bytearray(512)

    def put(at, text):
        head[at:at + len(text)] = text
    put(0, b"bomb")
    put(100, b"0000644\0" + b"0000000\0" * 2 + b"\x80" + (0).to_bytes(11, "big") + b"00000000000\0")
    put(156, b"S")
    put(257, b"ustar  \0")
    put(386, b"\x80" + (2 ** 62).to_bytes(11, "big") + b"\x80" + (0).to_bytes(11, "big"))
    put(483, b"\x80" + (2 ** 62).to_bytes(11, "big"))
    put(148, b"        ")
    put(148, b"%06o\0 " % sum(head))
    return bytes(head) + bytes(1024)


def hostile():
    """name -> (image or bytes, digest, words of the error)"""
    sh = [("bin", b"", DIR, 0o755), ("bin/sh", b"#!", tarfile.REGTYPE, 0o755)]
    out = {}

    def add(name, image, words):
        out[name] = (image, image.digest, words)

    def one(name, words, *members):
        add(name, Image([layer(*sh, *members)]), words)

    one("dotdot", "leads out", ("../../escape", b"x"))
    one("dotdot-inside", "leads out", ("etc/../../escape", b"x"))
    one("absolute", "absolute", {"name": "x", "content": b"x", "pax": {"path": "/tmp/escape"}})
    one("through-link", "symbolic link", ("way", b"", LINK, 0o777, "/tmp"), ("way/escape", b"x"))
    one("link-dotdot", "symbolic link", ("way", b"", LINK, 0o777, "../../.."), ("way/escape", b"x"))
    one("hard-outside", "leads out", ("h", b"", HARD, 0o644, "../../../etc/passwd"))
    one("hard-absolute", "absolute", ("h", b"", HARD, 0o644, "/etc/passwd"))
    one("hard-through-link", "symbolic link", ("way", b"", LINK, 0o777, "/etc"), ("h", b"", HARD, 0o644, "way/passwd"))
    one("device", "a device", ("disk", b"", tarfile.BLKTYPE, 0o666, "", None, 8))
    one("char-device", "a device", ("null", b"", tarfile.CHRTYPE, 0o666, "", None, 1))
    one("fifo", "a FIFO", ("pipe", b"", tarfile.FIFOTYPE))
    one("newline", "control character", ("a\nb", b"x"))
    one("no-utf8", "no UTF-8", {"name": "x", "content": b"x", "pax": {"hdrcharset": "BINARY", "path": "a\udcff"}})
    one("twice", "twice", ("etc/a", b"1"), ("etc/a", b"2"))
    one("twice-dir-file", "twice", ("d/a", b"1"), ("d", b"2"))
    one("deep", "too many parts", ("/".join(["d"] * 70), b"x"))
    one("whiteout-dotdot", "takes away no name", ("etc/.wh...", b""))
    one("whiteout-dot", "takes away no name", ("etc/.wh..", b""))
    one("whiteout-empty", "takes away no name", ("etc/.wh.", b""))
    one("whiteout-aufs", "takes away no name", ("etc/.wh..wh.plnk", b""))
    one("whiteout-dir", "whiteout", ("etc/.wh.x", b"", DIR, 0o755))
    add("whiteout-through-link", Image([layer(*sh, ("way", b"", LINK, 0o777, "/tmp")), layer(("way/.wh.canary", b""))]),
        "symbolic link")
    add("opaque-root", Image([layer(*sh), layer((".wh..wh..opq", b""))]), "empty")
    one("etc-link", "no directory", ("etc", b"", LINK, 0o777, "/etc"))
    one("var-link", "no directory", ("var", b"", LINK, 0o777, "/var"))
    add("sparse-bomb", Image([sparse_bomb()], "plain"), "sandbox.image_size")
    add("gzip-bomb", Image([layer(("zeros", bytes(420 << 20)))]), "sandbox.image_size")
    add("many-variables", Image([layer(*sh)], config={"Env": [f"V{i}=" for i in range(501)]}), "500 variables")
    add("other-arch", Image([layer(*sh)], arch="pdp11"), "another system")
    add("wrong-diff", Image([layer(*sh)], diffs=["sha256:" + "0" * 64]), "unpacked, and not")
    add("spoiled", spoiled(Image([layer(*sh)])), "")
    image = Image([layer(*sh)])
    add("missing", without(image, [d for d, b in image.blobs.items() if b[:2] == b"\x1f\x8b"][0]), "missing")
    add("index-deep", nested(6), "index of indexes")
    add("both", top(json.dumps({"manifests": [], "layers": [], "config": {}}).encode()), "at once")
    add("deep-json", top(b'{"a":' * 5000 + b"1" + b"}" * 5000), "no sound JSON")
    add("no-json", top(b"\x00\xff{"), "no sound JSON")
    add("huge-size", Image([layer(*sh)], manifest={"layers": [
        {"mediaType": LAYER, "digest": "sha256:" + "1" * 64, "size": 2 ** 62}]}), "sandbox.image_size")
    add("bad-digest", top(json.dumps({"config": {"digest": "sha256:../../etc/passwd", "size": 1},
                                      "layers": [{}]}).encode()), "hexadecimal")
    image = good("cut", "gzip")
    out["truncated"] = (mangled(image, lambda b: b[:len(b) * 2 // 3]), image.digest, "")
    image = good("other", "gzip")
    out["other-digest"] = (image, "2" * 64, "missing")
    return out


def main():
    what = sys.argv[1]
    if what == "good":
        packing = "zstd" if "--zstd" in sys.argv else "gzip"
        home = sys.argv[sys.argv.index("--home") + 1] if "--home" in sys.argv else None
        image = good(sys.argv[3], packing, home)
        (image.save_dir if "--dir" in sys.argv else image.save)(sys.argv[2])
        print("sha256:" + image.digest)
        return
    if what == "big":
        image = Image([layer(*programs()), layer(("big", bytes(300 << 20)))])
        image.save(sys.argv[2])
        print("sha256:" + image.digest)
        return
    for name, (image, digest, words) in sorted(hostile().items()):
        path = os.path.join(sys.argv[2], name + ".tar")
        if isinstance(image, bytes):
            with open(path, "wb") as f:
                f.write(image)
        else:
            image.save(path)
        print(name, "sha256:" + digest, words)


if __name__ == "__main__":
    main()
