#!/usr/bin/env bash
# Terms (Dinu et al. 2019): a Multi30k English-French model learns to copy translations that are marked in its source,
# and is compared with constrained search, which needs no such training.
#
#   recipes/terms/run.sh
#   KIND=append SHARE=0.1 recipes/terms/run.sh      # "A dog [chien] runs." in 10 % of the lines; default: replace, 0.3
#   CORPUS=folder recipes/terms/run.sh              # with {train,valid,test2016}.{en,fr}.gz
#   SCALE=tiny recipes/terms/run.sh                 # on a slice of the data, in a minute
#
# Everything is written below WORK (default: work/terms). Existing files are not made again.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
corpus=${CORPUS:+$(realpath "$CORPUS")}
kind=${KIND:-replace}
work=${WORK:-work/terms${SCALE:+-$SCALE}}
mkdir -p "$work/terms"
cd "$work"
source "$recipe/../lib.sh"

# prepare DATA SRC: makes a data folder like the first one, with the training text SRC.
prepare() {
    local like=(--tokenizer moses --bpe 4000)
    if [ -e data/manifest.json ]; then like=(--like data); fi
    if [ ! -e "$1/manifest.json" ]; then
        nmtkit prep --src-lang en --tgt-lang fr --output "$1" "${like[@]}" \
            --train "$2" raw/train.fr --dev raw/valid.{en,fr} --test raw/test2016.{en,fr}
    fi
}

# 1. The text, its lexicon, and the test terms.
multi30k "$corpus" fr
prepare data raw/train.en
if [ ! -e data/lexicon.tsv ]; then nmtkit align --threshold 4; fi
python3 "$recipe/mark.py" draw data/lexicon.tsv raw/test2016.{en,fr} terms

# 2. The same text with marked terms. BPE is joint, so that source and target have the same subwords of a translation.
data=data-$kind
if [ ! -e "marked.$kind.en" ]; then
    python3 "$recipe/mark.py" train "$kind" "${SHARE:-0.3}" data/lexicon.tsv raw/train.{en,fr} > "marked.$kind.part"
    mv "marked.$kind.part" "marked.$kind.en"
fi
prepare "$data" "marked.$kind.en"
if [ ! -e "$data/ids.json" ]; then nmtkit vocab --data "$data"; fi

# 3. Ten epochs.
nmtkit train --model rnnsearch --config "$recipe/../back-translation/model.yaml" --data "$data" --output "run-$kind" \
    --set model.dropout=0.2 --set training.max_updates=4500 "${tiny_training[@]}"
if [ ! -e "averaged-$kind" ]; then nmtkit average --model "run-$kind" --output "averaged-$kind"; fi

# 4. Terms satisfied, BLEU and time, without marks and with them.
python3 "$recipe/measure.py" "averaged-$kind" terms "$kind"
