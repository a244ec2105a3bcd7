#!/usr/bin/env bash
# Fine-tuning: a model of everyday sentences (Tatoeba) learns image captions (Multi30k) from 3,000 of them.
#
#   recipes/fine-tuning/run.sh
#   TATOEBA=folder MULTI30K=folder recipes/fine-tuning/run.sh       # folders with {train,valid,...}.{en,de}.gz
#   SCALE=tiny recipes/fine-tuning/run.sh                           # all of it on a slice, in a minute
#
# Everything is written below WORK (default: work/fine-tuning). What exists is not made again.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
general=${TATOEBA:+$(realpath "$TATOEBA")} domain=${MULTI30K:+$(realpath "$MULTI30K")}
work=${WORK:-work/fine-tuning${SCALE:+-$SCALE}}
mkdir -p "$work/general" "$work/domain"
cd "$work"
source "$recipe/../lib.sh"

# 1. Two domains: 20,000 pairs of one, 3,000 of the other, 500 of each to develop on.
(cd general && tatoeba "$general")
(cd domain && multi30k "$domain")
for language in en de; do
    head -n 20000 general/raw/train.$language > general.$language
    head -n 500 general/raw/valid.$language > general-dev.$language
    head -n 3000 domain/raw/train.$language > domain.$language
    head -n 500 domain/raw/valid.$language > domain-dev.$language
done

# 2. The model to begin with.
if [ ! -e data/manifest.json ]; then
    nmtkit prep --tokenizer moses --bpe 4000 --train general.{en,de} --dev general-dev.{en,de} --test general/raw/test.{en,de}
fi
if [ ! -e data/ids.json ]; then nmtkit vocab; fi
nmtkit train --model rnnsearch --config "$recipe/../back-translation/model.yaml" "${tiny_training[@]}"

# 3. The captions prepared as the model's text: its tokens, its BPE, its vocabularies.
if [ ! -e data-domain/manifest.json ]; then
    nmtkit prep --like run --output data-domain \
        --train domain.{en,de} --dev domain-dev.{en,de} --test domain/raw/test2016.{en,de}
fi
if [ ! -e data-domain/ids.json ]; then
    nmtkit vocab --data data-domain --src-from run/vocab.src --tgt-from run/vocab.tgt
fi

# 4. Its weights, trained on at a quarter of the rate.
nmtkit train --from run --data data-domain --output run-tuned --set training.optimizer.lr=5e-4 \
    --set training.max_updates=400 --set training.valid_every=100 "${tiny_training[@]}"

# 5. Both test sets, before and after.
for set in general/raw/test domain/raw/test2016; do
    for run in run run-tuned; do
        nmtkit translate --model $run < $set.en > "$run.${set%%/*}.de"
    done
    nmtkit score "run.${set%%/*}.de" "run-tuned.${set%%/*}.de" $set.de --language de --paired bs
done
