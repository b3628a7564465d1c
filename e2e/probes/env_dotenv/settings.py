import os

STAGE, PROJECT = os.environ.get("STAGE", "-1"), os.environ.get("PROJECT")
