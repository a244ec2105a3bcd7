#!/usr/bin/env bash
# Published systems: download one, import it, translate its test set, and compare the score with the published one.
#
#   recipes/published/run.sh opus-mt-en-de      # or uedin-wmt17-en-de, fconv-wmt14-en-de, fconv-wmt14-en-fr
#   SCALE=tiny MIRROR=http://host:port recipes/published/run.sh opus-mt-en-de   # a small model of the same format
#
# Everything is written below WORK (default: work/published). Existing files are not made again.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
system=${1:-opus-mt-en-de}
work=${WORK:-work/published${SCALE:+-$SCALE}}
mkdir -p "$work/theirs"
cd "$work"
source "$recipe/../lib.sh"
src=en tgt=de
case $system in
    opus-mt-en-de)
        # https://github.com/Helsinki-NLP/OPUS-MT-train/blob/master/models/en-de/README.md; CC-BY 4.0
        urls=(https://object.pouta.csc.fi/OPUS-MT-models/en-de/opus-2020-02-26.zip)
        set=newstest2017 published="29.9 BLEU (the table of OPUS-MT-train)"
        ;;
    uedin-wmt17-en-de)
        # http://data.statmt.org/wmt17_systems: the first left-to-right model; CC BY-NC-SA 3.0
        files=(model.l2r.ens1.npz{,.json} vocab.{en,de}.json ende.bpe truecase-model.{en,de})
        urls=("${files[@]/#/http://data.statmt.org/wmt17_systems/en-de/}")
        set=newstest2017 published="in Sennrich et al. 2017 (WMT)"
        ;;
    fconv-wmt14-en-de)
        # https://github.com/facebookresearch/fairseq/tree/main/examples/conv_seq2seq; MIT
        urls=(https://dl.fbaipublicfiles.com/fairseq/models/wmt14.en-de.fconv-py.tar.bz2)
        set=newstest2014 published="25.16 BLEU, compounds split (Gehring et al. 2017)"
        ;;
    fconv-wmt14-en-fr)
        urls=(https://dl.fbaipublicfiles.com/fairseq/models/wmt14.v2.en-fr.fconv-py.tar.bz2)
        set=newstest2014 published="40.46 BLEU (Gehring et al. 2017)" tgt=fr
        ;;
    *) stop "$system is none of this recipe's presets or systems: opus-mt-en-de, uedin-wmt17-en-de, fconv-wmt14-en-{de,fr}" ;;
esac

# 1. The files of the model, in one folder.
theirs=theirs/$system
if [ ! -e "$theirs" ]; then
    mkdir -p "$theirs.part"
    for url in "${urls[@]}"; do
        fetch "$url"
        file=download/${url#*://}
        case $url in
            *.zip) python3 -m zipfile -e "$file" "$theirs.part" ;;
            *.tar.bz2) tar -xf "$file" --strip-components 1 -C "$theirs.part" ;;
            *) cp "$file" "$theirs.part" ;;
        esac
    done
    mv "$theirs.part" "$theirs"
fi

# 2. The test set.
mkdir -p corpora raw
case $set-$tgt in
    newstest2014-fr) archive=http://statmt.org/wmt14/test-full.tgz from=test-full/newstest2014-fren ;;
    newstest2014-de) archive=http://statmt.org/wmt14/test-full.tgz from=test-full/newstest2014-deen ;;
    newstest2017-de) archive=http://data.statmt.org/wmt17/translation-task/test.tgz from=test/newstest2017-ende ;;
esac
if [ ! -e "raw/$set.$src-$tgt.$tgt" ]; then
    fetch "$archive"
    tar -xf "download/${archive#*://}" -C corpora "$from-src.$src.sgm" "$from-ref.$tgt.sgm"
    segments "corpora/$from-src.$src.sgm" > "corpora/$set.$src-$tgt.$src"
    segments "corpora/$from-ref.$tgt.sgm" > "corpora/$set.$src-$tgt.$tgt"
    check_lines corpora/"$set.$src-$tgt".{"$src","$tgt"}
    for language in $src $tgt; do collect "raw/$set.$src-$tgt.$language" 20 "corpora/$set.$src-$tgt.$language"; done
fi

# 3. Import and translate.
[ -e "$system" ] || nmtkit import "$theirs" --output "$system"
nmtkit translate --model "$system" < "raw/$set.$src-$tgt.$src" > "$set.$system.$tgt"

# 4. Score.
echo "$set; published: $published"
nmtkit score "$set.$system.$tgt" "raw/$set.$src-$tgt.$tgt" --language "$tgt"
if [ "$system" = fconv-wmt14-en-de ]; then
    echo "$set, compounds split (rich ##AT##-##AT## text), to compare with the published figure"
    for file in "$set.$system.$tgt" "raw/$set.$src-$tgt.$tgt"; do split_compounds de < "$file" > "$file.split"; done
    nmtkit score "$set.$system.$tgt.split" "raw/$set.$src-$tgt.$tgt.split" --tokenized
fi
