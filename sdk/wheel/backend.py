"""Builds the wheel of bellows.py, with its types: what pip calls for `pip install ./sdk`.

One module of its own needs no build tool from a registry; a type checker believes the
annotations of packages only, so the module becomes the package ``bellows`` with a py.typed.
The same sources give the same bytes.
"""

import base64
import hashlib
import os
import tarfile
import zipfile

NAME = "bellows_ml"  # the registry's "bellows" is another project
VERSION = "0.1.0"
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = ("pyproject.toml", "bellows.py", os.path.join("wheel", "backend.py"))

METADATA = """Metadata-Version: 2.1
Name: bellows-ml
Version: {version}
Summary: Elastic training that can be resized, moved and resumed: the module of Bellows
License: Apache-2.0
Requires-Python: >=3.8
Classifier: Typing :: Typed

Jobs of Bellows find the module by themselves, in the version of the agent that runs them, and
use that one. This package is for editors, type checkers, and runs without Bellows.
"""


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Write the wheel into a directory and return its name."""
    info = "{}-{}.dist-info".format(NAME, VERSION)
    with open(os.path.join(HERE, "bellows.py"), "rb") as f:
        module = f.read()
    files = {
        "bellows/__init__.py": module,
        "bellows/py.typed": b"",
        info + "/METADATA": METADATA.format(version=VERSION).encode(),
        info + "/WHEEL": b"Wheel-Version: 1.0\nGenerator: bellows\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = info + "/RECORD"
    files[record] = "".join(recorded(name, data) for name, data in files.items()).encode() + (record + ",,\n").encode()
    wheel = "{}-{}-py3-none-any.whl".format(NAME, VERSION)
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)  # of 1980: the same bytes each time
            entry.external_attr = 0o644 << 16
            z.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return wheel


def recorded(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return "{},sha256={},{}\n".format(name, digest, len(data))


def build_sdist(sdist_directory, config_settings=None):
    """Write the sources into an archive and return its name."""
    base = "{}-{}".format(NAME, VERSION)
    with tarfile.open(os.path.join(sdist_directory, base + ".tar.gz"), "w:gz") as t:
        for name in SOURCES:
            t.add(os.path.join(HERE, name), os.path.join(base, name))
    return base + ".tar.gz"
