#!/usr/bin/env bash
# IWSLT'14 German-English as in Shen et al. 2018, section 4: TED talks, 25K joint BPE; lower-cased, 160,239 training
# pairs, as in the most common script.
#
#   recipes/iwslt14-de-en/run.sh densenmt-4l-2           # or convs2s-4l, densenmt-8l-2-e64, densenmt-enc-4l, ...
#   WORDS=1 recipes/iwslt14-de-en/run.sh densenmt-8l-2   # words instead of BPE (table 4)
#   TEDX=1 recipes/iwslt14-de-en/run.sh densenmt-4l-2    # the test set with TEDX dev2012, which the common script adds
#   TEXT=folder recipes/iwslt14-de-en/run.sh convs2s-4l  # your {train,dev,test}.{de,en}, tokenised and lower-cased
#   SCALE=tiny recipes/iwslt14-de-en/run.sh convs2s-4l   # on a slice of the data, in minutes
#   recipes/iwslt14-de-en/run.sh convs2s-4l --max-updates 100    # further arguments are for nmtkit train
#
# The presets are the paper's systems with its settings: batches of 32 sentences, NAG with a learning rate of 0.25,
# divided by ten whenever the dev loss rises, until it is below 1e-4; beam 5.
#
# Everything is written below WORK (default: work/iwslt14-de-en). Existing files are not made again.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
model=${1:-densenmt-4l-2}
text=${TEXT:+$(realpath "$TEXT")}
work=${WORK:-work/iwslt14-de-en${SCALE:+-$SCALE}}
mkdir -p "$work"
cd "$work"
source "$recipe/../lib.sh"
case $model in
    convs2s-wmt15 | densenmt-ende-15) stop "$model is a preset of recipes/wmt14-en-de" ;;
    convs2s-* | densenmt-*) ;;
    *) stop "$model is none of this recipe's presets; recipes/README.md lists them" ;;
esac

# 1. The talks of the evaluation campaign, from fairseq's copy, without markup.
if [ -z "$text" ] && [ ! -e raw/test.en ]; then
    fetch http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz 10936dfdf616504ddbd844e91b94ef4a
    mkdir -p corpora
    tar -xf download/dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz -C corpora
    for language in de en; do
        grep -v -e '<url>' -e '<talkid>' -e '<keywords>' corpora/de-en/train.tags.de-en.$language \
            | sed -e 's/<\/\?title>//g' -e 's/<\/\?description>//g' > corpora/train.$language
        for set in TED.dev2010 TED.tst2010 TED.tst2011 TED.tst2012 ${TEDX:+TEDX.dev2012}; do
            segments "corpora/de-en/IWSLT14.$set.de-en.$language.xml" | sed "s/’/'/g"
        done > corpora/test.$language
    done
    for set in train test; do check_lines corpora/$set.{de,en}; done
    for language in de en; do
        collect raw/train.$language 2000 corpora/train.$language
        collect raw/test.$language 20 corpora/test.$language
    done
fi

# 2. Moses tokenisation, lower case; pairs of 1 to 175 words with a length ratio below 1.5. Every 23rd of the remaining
#    pairs is for development, as in that script; the paper samples 7,000.
if [ -z "$text" ]; then
    text=$PWD/text
    if [ ! -e text/test.en ]; then
        nmtkit prep --src-lang de --tgt-lang en --tokenizer moses --no-normalize --lowercase --words --max-length 175 \
            --max-ratio 1.5 --train raw/train.{de,en} --test raw/test.{de,en} --output data-words
        mkdir -p text
        for side in src:de tgt:en; do
            awk 'NR % 23 == 0' "data-words/train.${side%:*}" > "text/dev.${side#*:}"
            awk 'NR % 23' "data-words/train.${side%:*}" > "text/train.${side#*:}"
        done
        if [ "${SCALE:-full}" = full ]; then check_lines text/train.{de,en} 160239; fi
        cp data-words/test.src text/test.de
        cp data-words/test.tgt text/test.en
    fi
fi

# 3. Joint BPE with 25,000 merges, or words; vocabularies have words with at least three occurrences, as in the release.
system=$model data=data segmentation=(--bpe 25000)
if [ -n "${WORDS:-}" ]; then system=$model-words data=data-unsplit segmentation=(--words); fi
if [ ! -e $data/manifest.json ]; then
    nmtkit prep --src-lang de --tgt-lang en --tokenizer none "${segmentation[@]}" --max-length 0 --max-ratio 0 \
        --train "$text"/train.{de,en} --dev "$text"/dev.{de,en} --test "$text"/test.{de,en} --output $data
fi
if [ ! -e $data/ids.json ]; then
    nmtkit vocab --data $data --min-count 3
fi

# 4. Train with the settings of the preset; finished runs are skipped.
nmtkit train --model "$model" --data $data --output "run-$system" "${tiny_training[@]}" "${@:2}"

# 5. Translate with the checkpoint of the lowest dev loss, greedily and with the preset's beam (table 4), and score
#    lower-cased words, as in the paper.
nmtkit translate --model "run-$system" --beam-size 1 < "$text/test.de" > "test.$system.greedy.en"
nmtkit translate --model "run-$system" < "$text/test.de" > "test.$system.en"
for translation in "test.$system.greedy.en" "test.$system.en"; do
    nmtkit score "$translation" "$text/test.en" --tokenized
done
