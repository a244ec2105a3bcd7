#!/usr/bin/env bash
# Multi30k English-German: 29,000 image captions, raw text to scored translations, for one model.
#
#   recipes/multi30k/run.sh rnnsearch          # or deep-att, deep-lau, bideep, ...: any preset, in its small version
#   CORPUS=/path/to/multi30k recipes/multi30k/run.sh rnnsearch
#
#   SCALE=tiny recipes/multi30k/run.sh rnnsearch       # on a slice of the data, in a minute
#
# CORPUS is a folder with train.en.gz, train.de.gz, valid.*, test2016.*; without it they are downloaded.
# Everything is written below WORK (default: work/multi30k); the same command resumes training. The number of epochs is
# that of the table in README.md; EPOCHS changes it.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
model=${1:-rnnsearch}
corpus=${CORPUS:+$(realpath "$CORPUS")}
work=${WORK:-work/multi30k${SCALE:+-$SCALE}}
mkdir -p "$work"
cd "$work"
source "$recipe/../lib.sh"
epochs=${EPOCHS:-$([ "$model" = deep-att ] && echo 12 || echo 9)}
nmtkit models "$model-small" > preset.yaml # stops here if there is no such preset

# 1. The corpus: the task 1 data of https://github.com/multi30k/dataset, raw text.
multi30k "$corpus"

# 2. Moses normalisation and tokenisation, joint BPE, vocabularies. Case is kept.
if [ ! -e data/manifest.json ]; then
    nmtkit prep --src-lang en --tgt-lang de --tokenizer moses --bpe 8000 \
        --train raw/train.{en,de} --dev raw/valid.{en,de} --test raw/test2016.{en,de}
fi
if [ ! -e data/ids.json ]; then
    nmtkit vocab
fi

# 3. Train, then average the best checkpoints.
nmtkit train --model "$model-small" --max-epochs "$epochs" --set training.patience=null --output "run-$model" \
    "${tiny_training[@]}"
nmtkit average --model "run-$model" --output "averaged-$model"

# 4. Translate the raw test set and score it; each score is printed with its signature.
nmtkit translate --model "averaged-$model" < raw/test2016.en > "test2016.$model.de"
nmtkit score "test2016.$model.de" raw/test2016.de --language de
