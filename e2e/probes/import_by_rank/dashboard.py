import sqlite3
import metrics

metrics.SINKS.append("dashboard:")
