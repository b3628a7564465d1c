LINES = 30
for i in range(LINES):
    print("in the buffer: line", i)
