import os
import tqdm

BAR = tqdm.tqdm(total=5, file=open(os.devnull, "w"), desc="import")
