#!/usr/bin/env bash
# IWSLT'14 German-English as in Shen et al. 2018, section 4: 160,239 pairs from TED talks, lower-cased, 25K joint BPE.
#
#   recipes/iwslt14-de-en/run.sh densenmt-4l-2           # or convs2s-4l, densenmt-8l-2-e64, densenmt-enc-4l, ...
#   TEDX=1 recipes/iwslt14-de-en/run.sh densenmt-4l-2    # the test set with TEDX dev2012, which the common script adds
#   recipes/iwslt14-de-en/run.sh convs2s-4l --max-updates 100    # more arguments go to nmtkit train
#
# The presets are the paper's systems with its settings: batches of 32 sentences, NAG with a rate of 0.25 that falls to
# a tenth at every rise of the dev loss, until it is below 1e-4; beam 5. Everything is written below WORK (default:
# iwslt14-de-en/); run the script again and it goes on. Text that is already tokenised and lower-cased can be put into
# WORK/text as {train,dev,test}.{de,en}; nothing is downloaded then.
set -euo pipefail
model=${1:-densenmt-4l-2}
work=${WORK:-iwslt14-de-en}
tests="TED.dev2010 TED.tst2010 TED.tst2011 TED.tst2012${TEDX:+ TEDX.dev2012}"
mkdir -p "$work"
cd "$work"

if [ ! -e text/test.en ]; then
    # 1. The corpus of the evaluation campaign (https://wit3.fbk.eu/2014-01), where fairseq keeps a copy of it.
    if [ ! -e de-en.tgz ]; then
        curl --fail --location --output de-en.tgz.part http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz
        echo "10936dfdf616504ddbd844e91b94ef4a  de-en.tgz.part" | md5sum --check
        mv de-en.tgz.part de-en.tgz
    fi

    # 2. Its lines without the marks around them.
    mkdir -p raw text
    for language in de en; do
        tar -xzOf de-en.tgz "de-en/train.tags.de-en.$language" |
            grep -v -e '<url>' -e '<talkid>' -e '<keywords>' |
            sed -E 's@</?(title|description)>@@g' > "raw/train.$language"
        for part in $tests; do
            tar -xzOf de-en.tgz "de-en/IWSLT14.$part.de-en.$language.xml" |
                sed -nE "s@’@'@g; s@^.*<seg id=\"[0-9]+\">(.*)</seg>.*@\1@p"
        done > "raw/test.$language"
    done

    # 3. Moses tokenisation, lower case; pairs of 1 to 175 words, neither side 1.5 times the other. Of what is left
    #    every 23rd pair is for development.
    nmtkit prep --src-lang de --tgt-lang en --no-normalize --lowercase --words --max-length 175 --max-ratio 1.5 \
        --train raw/train.{de,en} --test raw/test.{de,en} --output words
    for side in src:de tgt:en; do
        awk 'NR % 23 == 0' "words/train.${side%:*}" > "text/dev.${side#*:}"
        awk 'NR % 23' "words/train.${side%:*}" > "text/train.${side#*:}"
    done
    pairs=$(wc -l < text/train.de)
    if [ "$pairs" -ne "${PAIRS:-160239}" ]; then
        echo "$work/text/train.de: $pairs pairs, where the literature has 160,239; PAIRS=$pairs to go on" >&2
        exit 1
    fi
    cp words/test.src text/test.de
    cp words/test.tgt text/test.en
fi

# 4. Joint BPE and vocabularies.
if [ ! -e data/vocab.tgt ]; then
    nmtkit prep --src-lang de --tgt-lang en --tokenizer none --bpe 25000 --max-length 0 --max-ratio 0 \
        --train text/train.{de,en} --dev text/dev.{de,en} --test text/test.{de,en}
    nmtkit vocab
fi

# 5. Train, translate with the weights of the lowest dev loss, and score as the paper does: lower-cased words.
nmtkit train --model "$model" --output "run-$model" "${@:2}"
nmtkit translate --model "run-$model" < text/test.de > "test.$model.en"
nmtkit score "test.$model.en" text/test.en --tokenized
