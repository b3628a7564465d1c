import tempfile

FOLDER = tempfile.TemporaryDirectory(prefix="cache-")
FILE = tempfile.NamedTemporaryFile(suffix=".log")
PLAIN = tempfile.mkdtemp()
