#!/usr/bin/env bash
# Fine-tuning: a model trained on everyday sentences (Tatoeba) is adapted to image captions (Multi30k) with 3,000 pairs.
#
#   recipes/fine-tuning/run.sh
#   TATOEBA=folder MULTI30K=folder recipes/fine-tuning/run.sh       # folders with {train,valid,...}.{en,de}.gz
#   SCALE=tiny recipes/fine-tuning/run.sh                           # on a slice of the data, in a minute
#
# Everything is written below WORK (default: work/fine-tuning). Existing files are not made again.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
general=${TATOEBA:+$(realpath "$TATOEBA")} domain=${MULTI30K:+$(realpath "$MULTI30K")}
work=${WORK:-work/fine-tuning${SCALE:+-$SCALE}}
mkdir -p "$work/general" "$work/domain"
cd "$work"
source "$recipe/../lib.sh"

# 1. Two domains: 20,000 and 3,000 training pairs, and development sets of 500 pairs.
(cd general && tatoeba "$general")
(cd domain && multi30k "$domain")
for language in en de; do
    head -n 20000 general/raw/train.$language > general.$language
    head -n 500 general/raw/valid.$language > general-dev.$language
    head -n 3000 domain/raw/train.$language > domain.$language
    head -n 500 domain/raw/valid.$language > domain-dev.$language
done

# 2. The general-domain model.
if [ ! -e data/manifest.json ]; then
    nmtkit prep --tokenizer moses --bpe 4000 --train general.{en,de} --dev general-dev.{en,de} --test general/raw/test.{en,de}
fi
if [ ! -e data/ids.json ]; then nmtkit vocab; fi
nmtkit train --model rnnsearch --config "$recipe/../back-translation/model.yaml" "${tiny_training[@]}"

# 3. The captions, prepared with the model's tokenisation, BPE and vocabularies.
if [ ! -e data-domain/manifest.json ]; then
    nmtkit prep --like run --output data-domain \
        --train domain.{en,de} --dev domain-dev.{en,de} --test domain/raw/test2016.{en,de}
fi
if [ ! -e data-domain/ids.json ]; then
    nmtkit vocab --data data-domain --src-from run/vocab.src --tgt-from run/vocab.tgt
fi

# 4. Fine-tuning, with a quarter of the learning rate.
nmtkit train --from run --data data-domain --output run-tuned --set training.optimizer.lr=5e-4 \
    --set training.max_updates=400 --set training.valid_every=100 "${tiny_training[@]}"

# 5. Scores on both test sets, before and after.
for set in general/raw/test domain/raw/test2016; do
    for run in run run-tuned; do
        nmtkit translate --model $run < $set.en > "$run.${set%%/*}.de"
    done
    nmtkit score "run.${set%%/*}.de" "run-tuned.${set%%/*}.de" $set.de --language de --paired bs
done
