from knobs import RATE
