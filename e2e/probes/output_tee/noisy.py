import sys

OUT = sys.stdout
print("hello from a module")
sys.stdout.write("written\n")
