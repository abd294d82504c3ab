"""What pip asks to build the package (PEP 517): nothing is fetched for it, and the same files give the same archives, byte for byte.

    python3 backend.py wheel DIRECTORY
    python3 backend.py sdist DIRECTORY
"""
import base64
import gzip
import hashlib
import io
import os
import re
import sys
import tarfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", 315532800))  # 1980, the first moment that a zip can tell


def _said(key):
    with open(os.path.join(HERE, "pyproject.toml"), encoding="utf-8") as f:
        return re.search(rf'^{key} = "([^"]+)"$', f.read(), re.M)[1]


NAME, VERSION = _said("name"), _said("version")
INFO = f"{NAME}-{VERSION}.dist-info"


def _read(name):
    with open(os.path.join(HERE, name), "rb") as f:
        return f.read()


def _sources():
    for folder, folders, names in sorted(os.walk(os.path.join(HERE, NAME))):
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        for name in sorted(names):
            if name.endswith(".py") or name == "py.typed":
                yield os.path.relpath(os.path.join(folder, name), HERE)


def _metadata():
    lines = ["Metadata-Version: 2.1", f"Name: {NAME}", f"Version: {VERSION}", f"Summary: {_said('description')}",
             f"Requires-Python: {_said('requires-python')}", "Description-Content-Type: text/markdown", "", _read("README.md").decode()]
    return "\n".join(lines).encode()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    files = [(name, _read(name)) for name in _sources()]
    files += [(f"{INFO}/METADATA", _metadata()),
              (f"{INFO}/WHEEL", b"Wheel-Version: 1.0\nGenerator: muxd\nRoot-Is-Purelib: true\nTag: py3-none-any\n")]
    record = [f"{n},sha256={base64.urlsafe_b64encode(hashlib.sha256(d).digest()).decode().rstrip('=')},{len(d)}" for n, d in files]
    files.append((f"{INFO}/RECORD", "\n".join(record + [f"{INFO}/RECORD,,", ""]).encode()))
    name = f"{NAME}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_STORED) as z:
        for path, data in files:
            about = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            about.external_attr = 0o644 << 16
            z.writestr(about, data)
    return name


def build_sdist(sdist_directory, config_settings=None):
    name = f"{NAME}-{VERSION}.tar.gz"
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        files = [(n, _read(n)) for n in [*_sources(), "backend.py", "pyproject.toml", "README.md"]] + [("PKG-INFO", _metadata())]
        for path, data in files:
            about = tarfile.TarInfo(f"{NAME}-{VERSION}/{path}")
            about.size, about.mtime, about.mode = len(data), EPOCH, 0o644
            tar.addfile(about, io.BytesIO(data))
    with open(os.path.join(sdist_directory, name), "wb") as f, gzip.GzipFile("", "wb", fileobj=f, mtime=EPOCH) as z:
        z.write(raw.getvalue())
    return name


if __name__ == "__main__":
    os.makedirs(sys.argv[2], exist_ok=True)
    print({"wheel": build_wheel, "sdist": build_sdist}[sys.argv[1]](sys.argv[2]))
