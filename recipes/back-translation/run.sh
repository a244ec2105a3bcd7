#!/usr/bin/env bash
# Back-translation (Sennrich et al. 2016): an English-German model is also trained on monolingual German text.
#
#   recipes/back-translation/run.sh
#   CORPUS=folder recipes/back-translation/run.sh      # with {train,valid,test}.{en,de}.gz
#   SCALE=tiny recipes/back-translation/run.sh         # on a slice of the data, in a minute
#
# Everything is written below WORK (default: work/back-translation). Existing files are not made again.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
corpus=${CORPUS:+$(realpath "$CORPUS")}
work=${WORK:-work/back-translation${SCALE:+-$SCALE}}
mkdir -p "$work"
cd "$work"
source "$recipe/../lib.sh"

# 1. Tatoeba's first 20,000 pairs, and 40,000 German sentences as monolingual text.
tatoeba "$corpus"
pairs=20000 monolingual=40000
if [ "${SCALE:-full}" = tiny ]; then pairs=1000 monolingual=1000; fi
for language in en de; do
    head -n $pairs raw/train.$language > pairs.$language
    head -n 500 raw/valid.$language > dev.$language
done
sed -n "$((pairs + 1)),$((pairs + monolingual))p" raw/train.de > monolingual.de

# train_on DATA RUN SRC TGT TEXT: trains a model from language SRC to TGT on the text in TEXT.SRC and TEXT.TGT.
train_on() {
    if [ ! -e "$1/manifest.json" ]; then
        nmtkit prep --output "$1" --src-lang "$3" --tgt-lang "$4" --tokenizer moses --bpe 4000 \
            --train "$5.$3" "$5.$4" --dev "dev.$3" "dev.$4" --test "raw/test.$3" "raw/test.$4"
    fi
    if [ ! -e "$1/ids.json" ]; then nmtkit vocab --data "$1"; fi
    nmtkit train --model rnnsearch --config "$recipe/model.yaml" --data "$1" --output "$2" "${tiny_training[@]}"
}

# 2. The baseline, and a model for the reverse direction.
train_on data run en de pairs
train_on data-reverse run-reverse de en pairs

# 3. The German text translated into English: the target side remains human text.
if [ ! -e synthetic.en ]; then
    nmtkit translate --model run-reverse --beam-size 2 --input monolingual.de --output synthetic.en
fi

# 4. A new model trained on both texts.
for language in en de; do
    if [ $language = en ]; then added=synthetic.en; else added=monolingual.de; fi
    cat pairs.$language $added > both.$language
done
train_on data-both run-both en de both

# 5. The test set, translated by the baseline and the new model.
for run in run run-both; do
    nmtkit translate --model $run < raw/test.en > $run.de
done
nmtkit score run.de run-both.de raw/test.de --language de --paired bs
