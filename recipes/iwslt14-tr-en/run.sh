#!/usr/bin/env bash
# IWSLT'14 Turkish-English, the systems of Shen et al. 2018: raw text to scored translations, for one preset.
#
#   recipes/iwslt14-tr-en/run.sh densenmt-8l-2                          # Tr-En: BPE, 30K merges per side
#   MORPH=folder recipes/iwslt14-tr-en/run.sh densenmt-8l-2             # Tr-En-morph: Turkish, segmented by you
#   SCALE=tiny recipes/iwslt14-tr-en/run.sh densenmt-4l-1-e64           # on a slice of the data, in minutes
#
# MORPH has train.tr, dev.tr, tst2011.tr, ..., tst2014.tr: the lines of raw/, which step 1 makes, as morphemes separated
# by spaces (in the paper by Zemberek, github.com/orhanf/zemberekMorphTR). Run once without MORPH to get raw/.
#
# Everything is written below WORK (default: work/iwslt14-tr-en). Existing files are not made again.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
model=${1:-densenmt-8l-2}
morph=${MORPH:+$(realpath "$MORPH")}
work=${WORK:-work/iwslt14-tr-en${SCALE:+-$SCALE}}
mkdir -p "$work"
cd "$work"
source "$recipe/../lib.sh"
case $model in
    convs2s-wmt15 | densenmt-ende-15) stop "$model is a preset of recipes/wmt14-en-de" ;;
    convs2s-* | densenmt-*) ;;
    *) stop "$model is none of this recipe's presets; recipes/README.md lists them" ;;
esac
tests=(tst2011 tst2012 tst2013 tst2014)

# 1. The talks: training text without markup, dev2010 and tst2010 as development set, tst2011 to tst2014 as test sets;
#    and SETimes news from OPUS as further training text: 360,000 pairs in all.
if [ ! -e raw/tst2014.en ]; then
    fetch https://wit3.fbk.eu/archive/2014-01/texts/tr/en/tr-en.tgz
    fetch https://object.pouta.csc.fi/OPUS-SETIMES/v2/moses/en-tr.txt.zip
    mkdir -p corpora
    python3 -m zipfile -e download/object.pouta.csc.fi/OPUS-SETIMES/v2/moses/en-tr.txt.zip corpora/setimes
    check_lines corpora/setimes/SETIMES.en-tr.{tr,en}
    tar -xf download/wit3.fbk.eu/archive/2014-01/texts/tr/en/tr-en.tgz -C corpora
    for language in tr en; do
        grep -v -e '<url>' -e '<talkid>' -e '<keywords>' corpora/tr-en/train.tags.tr-en.$language \
            | sed -e 's/<\/\?title>//g' -e 's/<\/\?description>//g' > corpora/train.$language
        for set in dev2010 tst2010 "${tests[@]}"; do
            file=corpora/tr-en/IWSLT14.TED.$set.tr-en.$language.xml
            [ -e "$file" ] || stop "the archive has no $file; put it there, it may be in a later year's (see README.md)"
            segments "$file" > corpora/$set.$language
        done
    done
    for set in train dev2010 tst2010 "${tests[@]}"; do check_lines corpora/$set.{tr,en}; done
    for language in tr en; do
        collect raw/train.$language 2000 corpora/train.$language corpora/setimes/SETIMES.en-tr.$language
        collect raw/dev.$language 20 corpora/{dev2010,tst2010}.$language
        collect raw/test.$language 80 corpora/tst201{1,2,3,4}.$language
        for set in "${tests[@]}"; do collect raw/$set.$language 20 corpora/$set.$language; done
    done
fi

# 2. A data folder, without pairs with a length ratio above 9. Tr-En: Moses tokenisation, separate BPE per language.
#    Tr-En-morph: your Turkish morphemes unchanged, and English words, which are tokenised here, because your text
#    already is. Everything is lower-cased, on which the paper is silent. The vocabularies have all subwords, or the
#    40,000 most frequent morphemes and words, with which models have the sizes of table 1: 13, 21 and 36 million.
if [ -n "$morph" ]; then
    data=data-morph vocab=(--src-size 40000 --tgt-size 40000)
    if [ ! -e $data/manifest.json ]; then
        mkdir -p morph
        for set in train dev "${tests[@]}"; do
            check_lines "$morph/$set.tr" raw/$set.en
            sacremoses -l en tokenize < raw/$set.en > morph/$set.en
        done
        cat "$morph"/tst201{1,2,3,4}.tr > morph/test.tr
        cat morph/tst201{1,2,3,4}.en > morph/test.en
        nmtkit prep --train "$morph/train.tr" morph/train.en --dev "$morph/dev.tr" morph/dev.en --test morph/test.{tr,en} \
            --tokenizer none --words --lowercase --max-ratio 9 --max-length 0 --output $data
    fi
else
    data=data-bpe vocab=()
    if [ ! -e $data/manifest.json ]; then
        nmtkit prep --train raw/train.{tr,en} --dev raw/dev.{tr,en} --test raw/test.{tr,en} \
            --tokenizer moses --no-normalize --lowercase --bpe 30000 --separate --max-ratio 9 --max-length 0 --output $data
    fi
fi
if [ ! -e $data/ids.json ]; then
    nmtkit vocab --data $data "${vocab[@]}"
fi

# 3. Train with the settings of the preset; finished runs are skipped.
run=run-$model-${data#data-}
nmtkit train --model "$model" --data $data --output "$run" "${tiny_training[@]}"

# 4. Translate and score every test set, and their concatenation (the last column of table 3, and table 1), which is
#    also the test set of the data folder, for nmtkit report.
score=(nmtkit score --language en)
if [ -n "$morph" ]; then score=(nmtkit score --tokenized); fi
for set in "${tests[@]}"; do
    source=${morph:-raw}/$set.tr
    nmtkit translate --model "$run" < "$source" > "$set.$run.en"
    if [ -n "$morph" ]; then cp morph/$set.en "$set.reference.en"; else cp raw/$set.en "$set.reference.en"; fi
    "${score[@]}" "$set.$run.en" "$set.reference.en"
done
cat "${tests[@]/%/.$run.en}" > "all.$run.en"
cat "${tests[@]/%/.reference.en}" > all.reference.en
"${score[@]}" "all.$run.en" all.reference.en
