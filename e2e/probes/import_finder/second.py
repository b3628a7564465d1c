import wave
