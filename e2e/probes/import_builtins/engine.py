import builtins
import parts

LEVEL = 10 if getattr(builtins, "DEBUG", False) else 30
profile = getattr(builtins, "profile", lambda f: f)


@profile
def run():
    return LEVEL
