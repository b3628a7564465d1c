import second

with open("table.txt") as f:
    TABLE = f.read().split()
