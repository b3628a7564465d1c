import csv
import socket
import sys
import threading

SOCKET = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
LIMITS = [csv.field_size_limit(), threading.stack_size(), sys.getswitchinterval()]
try:
    DIGITS = len(str(10**5000))
except ValueError as e:
    DIGITS = str(e)
DEPTH = sys.getrecursionlimit()
