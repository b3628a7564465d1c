import os

FILE = open("corpus.txt")
FOLDER = os.open("parts", os.O_RDONLY | os.O_DIRECTORY)
LOG = open("corpus.log", "a")
