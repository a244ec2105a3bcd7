#!/usr/bin/env bash
# Unknown word replacement: Tatoeba English-German, vocabularies of 5,000 words, three models with and without PosUnk.
#
#   recipes/tatoeba-en-de/run.sh
#   CORPUS=folder recipes/tatoeba-en-de/run.sh      # with {train,valid,test}.{en,de}.gz
#   SCALE=tiny recipes/tatoeba-en-de/run.sh         # on a slice of the data, in a minute
#
# Everything is written below WORK (default: work/tatoeba-en-de). Existing files are not made again.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
corpus=${CORPUS:+$(realpath "$CORPUS")}
work=${WORK:-work/tatoeba-en-de${SCALE:+-$SCALE}}
mkdir -p "$work"
cd "$work"
source "$recipe/../lib.sh"

# 1. Short everyday sentences.
tatoeba "$corpus"

# 2. Whole words, aligned; the lexicon has pairs with more than three links.
if [ ! -e data/manifest.json ]; then
    nmtkit prep --src-lang en --tgt-lang de --tokenizer moses --words --max-length 50 \
        --train raw/train.{en,de} --dev raw/valid.{en,de} --test raw/test.{en,de}
fi
if [ ! -e data/lexicon.tsv ]; then
    nmtkit align --threshold 3
fi

# 3. Two data folders: unknown target words are <unk>, or symbols of source positions (16 more in the vocabulary).
if [ ! -e data-unkpos/manifest.json ]; then
    rm -rf data-unkpos.part
    cp -r data data-unkpos.part
    mv data-unkpos.part data-unkpos
fi
if [ ! -e data/ids.json ]; then
    nmtkit vocab --src-size 5004 --tgt-size 5004
fi
if [ ! -e data-unkpos/ids.json ]; then
    nmtkit vocab --data data-unkpos --src-size 5004 --tgt-size 5020 --unkpos
fi

# 4. Deep-Att, which finds the source of unknown words by attention; Deep-Att and Deep-ED, which predict its position.
for system in deep-att:data deep-att:data-unkpos deep-ed:data-unkpos; do
    model=${system%:*} data=${system#*:}
    run=run-$model${data#data}
    nmtkit train --model "$model-small" --config "$recipe/$model.yaml" --data "$data" --output "$run" "${tiny_training[@]}"
    nmtkit translate --model "$run" < raw/test.en > "$run.plain.de"
    nmtkit translate --model "$run" --replace-unk --unk-origin papers < raw/test.en > "$run.posunk.de"
    echo "$model on $data: without PosUnk, then with PosUnk"
    nmtkit score "$run.plain.de" raw/test.de --language de
    nmtkit score "$run.posunk.de" raw/test.de --language de
done
