"""Translates a tokenised text with CTranslate2, which has no command for it; run it with the Python of CTranslate2.

python translate_ctranslate2.py MODEL IN OUT COMPUTE_TYPE THREADS LEAST MOST
"""

import sys
import time

import ctranslate2

model, source, output, compute_type, threads, least, most = sys.argv[1:]
# Several batches in parallel with one thread each, its fastest way to translate a text.
translator = ctranslate2.Translator(
    model, device="cpu", compute_type=compute_type, inter_threads=int(threads), intra_threads=1
)
with open(source, encoding="utf-8") as file:
    lines = [line.split() for line in file]
began = time.perf_counter()
# It sorts the lines by length itself; the others also have batches of 80.
results = translator.translate_batch(
    lines, beam_size=5, max_batch_size=80, min_decoding_length=int(least), max_decoding_length=int(most)
)
print(f"translated in {time.perf_counter() - began:.3f} s")
with open(output, "w", encoding="utf-8") as file:
    file.writelines(" ".join(result.hypotheses[0]) + "\n" for result in results)
