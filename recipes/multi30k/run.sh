#!/usr/bin/env bash
# Multi30k English-German: 29,000 image captions, raw text to scored translations, for one model.
#
#   recipes/multi30k/run.sh rnnsearch          # or deep-att, deep-lau, bideep, ...: the YAML files beside this
#   CORPUS=/path/to/multi30k recipes/multi30k/run.sh rnnsearch
#
# CORPUS is a folder with train.en.gz, train.de.gz, valid.*, test2016.*; without it they are downloaded.
# Everything is written below WORK (default: multi30k/); run the script again and training goes on.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
model=${1:-rnnsearch}
work=${WORK:-multi30k}
mkdir -p "$work/download"
corpus=$(realpath "${CORPUS:-$work/download}")
cd "$work"

# 1. The corpus: the task 1 data of https://github.com/multi30k/dataset, raw text.
for part in train.en train.de val.en val.de test_2016_flickr.en test_2016_flickr.de; do
    name=${part/val./valid.}
    file="$corpus/${name/test_2016_flickr/test2016}.gz"
    if [ ! -e "$file" ]; then
        curl --fail --location --output "$file.part" \
            "https://github.com/multi30k/dataset/raw/master/data/task1/raw/$part.gz"
        mv "$file.part" "$file"
    fi
done

# 2. Moses normalisation and tokenisation, joint BPE, vocabularies. The case is kept.
if [ ! -e data/vocab.tgt ]; then
    nmtkit prep --src-lang en --tgt-lang de --bpe 8000 \
        --train "$corpus"/train.{en,de}.gz --dev "$corpus"/valid.{en,de}.gz --test "$corpus"/test2016.{en,de}.gz
    nmtkit vocab
fi

# 3. Train, then average the best checkpoints.
nmtkit train --model "$model" --config "$recipe/$model.yaml" --output "run-$model"
nmtkit average --model "run-$model" --output "averaged-$model"

# 4. Translate the raw test set and score it; what each number means is printed beside it.
zcat "$corpus/test2016.en.gz" | nmtkit translate --model "averaged-$model" > "test2016.$model.de"
zcat "$corpus/test2016.de.gz" > test2016.de
nmtkit score "test2016.$model.de" test2016.de --language de
