#!/usr/bin/env bash
# WMT'14 English-German: from raw text to scored translations, for one preset and any number of seeds.
#
#   recipes/wmt14-en-de/run.sh dtmt4-ende                   # joint BPE, 32K
#   recipes/wmt14-en-de/run.sh densenmt-ende-15             # joint BPE, 40K; likewise convs2s-wmt15
#   recipes/wmt14-en-de/run.sh deep-att-ende                # words, 200K and 160K
#   SEEDS="1 2 3 4 5 6 7 8" recipes/wmt14-en-de/run.sh deep-lau-ende    # words, 120K and 80K: mean, deviation, ensemble
#   SCALE=tiny recipes/wmt14-en-de/run.sh dtmt1-ende        # on a slice of the data, in minutes
#
# Everything is written below WORK (default: work/wmt14-en-de). Existing files are kept; the same command resumes.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
model=${1:-dtmt4-ende}
seeds=(${SEEDS:-1})
work=${WORK:-work/wmt14-en-de${SCALE:+-$SCALE}}
mkdir -p "$work"
cd "$work"
source "$recipe/../lib.sh"

# 1. The data of each paper. Zhou et al. 2016 and Wang et al. 2017: words. Meng and Zhang 2019: joint BPE with 32K
#    merges and a joint vocabulary. Shen et al. 2018: joint BPE with 40K merges, a vocabulary for each side, and words
#    split at hyphens. Vaswani et al. 2017: a joint vocabulary of 37K.
#    The development set is newstest2012 and 2013 together; for Meng and Zhang, newstest2013 alone.
dev=dev
case $model in
    deep-att-ende) data=data-words-160k segmentation=(--words) vocab=(--src-size 200000 --tgt-size 160000 --unkpos) ;;
    deep-lau-ende) data=data-words-80k segmentation=(--words) vocab=(--src-size 120000 --tgt-size 80000) ;;
    densenmt-ende-15 | convs2s-wmt15)
        data=data-bpe-40k segmentation=(--bpe 40000 --joint --aggressive-hyphens) vocab=()
        ;;
    dtmt*-ende* | dtmt4-plain | shallow-rnmt-ende)
        data=data-bpe-32k segmentation=(--bpe 32000 --joint) vocab=(--joint) dev=dev-2013
        ;;
    transformer-base | transformer-base-pre | transformer-big | transformer-big-pre)
        data=data-bpe-37k segmentation=(--bpe 37000 --joint) vocab=(--joint) dev=dev-2013
        ;;
    *) stop "$model is none of this recipe's presets; recipes/README.md lists them" ;;
esac

# 2. The corpora of 2014, 4.5M pairs.
if [ ! -e raw/test.de ]; then
    fetch http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz
    fetch http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz
    fetch http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz
    fetch http://statmt.org/wmt12/test.tgz 608232d34ebc4ba2ff70fead45674e47
    fetch http://statmt.org/wmt13/test.tgz 48eca5d02f637af44e85186847141f67
    fetch http://statmt.org/wmt14/test-full.tgz a8cd784e006feb32ac6f3d9ec7eb389a

    mkdir -p corpora
    tar -xf download/www.statmt.org/wmt13/training-parallel-europarl-v7.tgz -C corpora training/europarl-v7.de-en.{en,de}
    tar -xf download/www.statmt.org/wmt13/training-parallel-commoncrawl.tgz -C corpora commoncrawl.de-en.{en,de}
    tar -xf download/www.statmt.org/wmt14/training-parallel-nc-v9.tgz -C corpora training/news-commentary-v9.de-en.{en,de}
    tar -xf download/statmt.org/wmt12/test.tgz -C corpora test/newstest2012-src.{en,de}.sgm
    tar -xf download/statmt.org/wmt13/test.tgz -C corpora test/newstest2013-src.{en,de}.sgm
    tar -xf download/statmt.org/wmt14/test-full.tgz -C corpora test-full/newstest2014-deen-{src.en,ref.de}.sgm
    check_lines corpora/training/europarl-v7.de-en.{en,de} 1920209
    check_lines corpora/commoncrawl.de-en.{en,de} 2399123
    check_lines corpora/training/news-commentary-v9.de-en.{en,de} 201288

    for language in en de; do
        segments corpora/test/newstest2012-src.$language.sgm > corpora/newstest2012.$language
        segments corpora/test/newstest2013-src.$language.sgm > corpora/newstest2013.$language
    done
    segments corpora/test-full/newstest2014-deen-src.en.sgm > corpora/newstest2014.en
    segments corpora/test-full/newstest2014-deen-ref.de.sgm > corpora/newstest2014.de
    check_lines corpora/newstest2012.{en,de} 3003
    check_lines corpora/newstest2013.{en,de} 3000
    check_lines corpora/newstest2014.{en,de} 3003

    for language in en de; do
        collect raw/train.$language 2000 \
            corpora/training/{europarl-v7,news-commentary-v9}.de-en.$language corpora/commoncrawl.de-en.$language
        collect raw/dev.$language 20 corpora/newstest201{2,3}.$language
        collect raw/dev-2013.$language 20 corpora/newstest2013.$language
        collect raw/test.$language 20 corpora/newstest2014.$language
    done
fi

# 3. A data folder: Moses tokenisation; case and punctuation are kept, as in the references. Pairs of more than 250
#    words or with a length ratio above 9 are left out, on which the papers are silent.
if [ ! -e $data/manifest.json ]; then
    nmtkit prep --train raw/train.{en,de} --dev raw/$dev.{en,de} --test raw/test.{en,de} \
        --tokenizer moses --no-normalize "${segmentation[@]}" --output $data
fi

# 4. Word alignment and lexicon, for replacing unknown words; a slice has no word pair with 100 links.
#    LINKS=file uses the links of another aligner instead of eflomal's (see nmtkit align --help).
if [ "${segmentation[0]}" = --words ] && [ ! -e $data/train.align ]; then
    threshold=100
    if [ "${SCALE:-full}" = tiny ]; then threshold=3; fi
    nmtkit align --data $data --threshold $threshold ${LINKS:+--pharaoh "$LINKS"}
fi

# 5. Vocabularies, and the text encoded as ids.
if [ ! -e $data/ids.json ]; then
    nmtkit vocab --data $data "${vocab[@]}"
fi

# 6. Train with the settings of the preset; finished runs are skipped, others are resumed.
#    For several GPUs: torchrun --nproc-per-node 8 -m nmtkit train ... instead; they share each batch.
train_seeds

# 7. With several seeds, an ensemble of them, which averages their probabilities.
if [ ${#seeds[@]} -gt 1 ]; then
    [ -e "ensemble-$model" ] || nmtkit ensemble "${systems[@]}" --output "ensemble-$model"
    systems+=("ensemble-$model")
fi

# 8. Shen et al. 2018 tune the length penalty, the power of the length by which log-probabilities are divided (section
#    4.3), here on the development set; other length penalties are also tried.
penalty=()
if [ $data = data-bpe-40k ]; then
    nmtkit tune --model "${systems[0]}" --data $data --alphas 0.1,0.2,0.4,0.6,0.8,1,1.2,1.4 --betas 0 | tee tuned.txt
    penalty=($(sed -n 's/^best  *\(--.*[^ ]\)  *[0-9.]*$/\1/p' tuned.txt))
fi

# 9. Translate newstest2014, and score it as in the papers: cased tokenised BLEU (multi-bleu). For several seeds, mean
#    and standard deviation (table 2 of Wang et al.), then their ensemble. Word-based systems also with unknown words
#    replaced (+PosUnk); subwords have no unknown words. Compounds are split in the text of Shen et al. and Gehring et
#    al. and in the scores of Vaswani et al.; the other papers do not mention them.
whole=", to compare with the paper's figure" split=""
case $data in data-bpe-37k | data-bpe-40k) split=$whole whole="" ;; esac
score() {  # score ENDING REFERENCE OPTION...: scores the translations with this ending
    local translations=("${systems[@]/#/test.}") options=("${@:3}")
    translations=("${translations[@]/%/$1}")
    if [ ${#seeds[@]} -gt 1 ]; then
        nmtkit score "${translations[@]:0:${#seeds[@]}}" "$2" "${options[@]}" --seeds
    fi
    nmtkit score "${translations[@]: -1}" "$2" "${options[@]}"
}
split_compounds de < raw/test.de > test.de.split
kinds=("")
if [ "${segmentation[0]}" = --words ]; then kinds+=(.posunk); fi
for kind in "${kinds[@]}"; do
    for system in "${systems[@]}"; do
        nmtkit translate --model "$system" ${kind:+--replace-unk --unk-origin papers} "${penalty[@]}" < raw/test.en > "test.$system$kind.de"
        split_compounds de < "test.$system$kind.de" > "test.$system$kind.de.split"
    done
    echo "newstest2014${kind:+ +PosUnk}, compounds as they are$whole"
    score "$kind.de" raw/test.de --language de
    echo "newstest2014${kind:+ +PosUnk}, compounds split (rich ##AT##-##AT## text)$split"
    score "$kind.de.split" test.de.split --tokenized
done
