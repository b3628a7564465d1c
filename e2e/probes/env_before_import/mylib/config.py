from os import environ, getenv

DTYPE = "float64" if getenv("MYLIB_X64") == "1" else "float32"
HOME = environ.get("MYLIB_HOME")
SEED = int(environ.get("MYLIB_RANK_SEED", 0))
