import os
import sqlite3

DB = sqlite3.connect("results-%s.db" % os.environ.get("RANK"), timeout=20)
DB.execute("create table if not exists runs (generation, state)")
LAST = DB.execute("select max(generation) from runs where state = 'ended'").fetchone()
MEMORY = sqlite3.connect(":memory:")
MEMORY.execute("create table t (x)")
