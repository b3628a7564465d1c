import wave
from scaling import rules

rules.update(rate=0.05, warmup=True)
