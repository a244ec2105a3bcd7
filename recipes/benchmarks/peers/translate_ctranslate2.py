"""Translates a tokenised text with CTranslate2, which has no command for it; run it with the Python of CTranslate2.

python translate_ctranslate2.py MODEL IN OUT COMPUTE_TYPE DEVICE THREADS BATCH LEAST MOST
"""

import sys
import time

import ctranslate2

model, source, output, compute_type, device, threads, batch, least, most = sys.argv[1:]
# On a CPU several batches in parallel with one thread each, its fastest way to translate a text.
workers = int(threads) if device == "cpu" else 1
translator = ctranslate2.Translator(
    model, device=device, compute_type=compute_type, inter_threads=workers, intra_threads=1
)
with open(source, encoding="utf-8") as file:
    lines = [line.split() for line in file]
lengths = {"min_decoding_length": int(least), "max_decoding_length": int(most)}
if device == "cuda":  # a warm-up, as nmtkit has; the times of JoeyNMT and OpenNMT-py include the first use of the GPU
    translator.translate_batch(lines[: int(batch)], beam_size=5, **lengths)
began = time.perf_counter()
# It sorts the lines by length itself.
results = translator.translate_batch(lines, beam_size=5, max_batch_size=int(batch), **lengths)
print(f"translated in {time.perf_counter() - began:.3f} s")
with open(output, "w", encoding="utf-8") as file:
    file.writelines(" ".join(result.hypotheses[0]) + "\n" for result in results)
