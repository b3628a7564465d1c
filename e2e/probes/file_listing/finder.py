import glob
import os

FOUND = sorted(glob.glob("saved/epoch-*"))
NEWEST = FOUND[-1]
COUNT = len(os.listdir("saved"))
BY_MTIME = os.path.basename(max(glob.glob("saved/*/weights"), key=os.path.getmtime).split("/")[1])
WALKED = sum(len(files) for _, _, files in os.walk("saved"))
