#!/usr/bin/env bash
# WMT'14 English-French: from raw text to scored translations, for one preset and any number of seeds.
#
#   recipes/wmt14-en-fr/run.sh deep-att                     # 36M pairs, words
#   SEEDS="1 2 3" recipes/wmt14-en-fr/run.sh deep-att       # and their ensemble
#   recipes/wmt14-en-fr/run.sh deep-att-12m                 # 12M pairs, 30K words; likewise deep-lau-enfr, rnnsearch
#   recipes/wmt14-en-fr/run.sh dtmt4-enfr                   # 36M pairs, joint BPE
#   SCALE=tiny recipes/wmt14-en-fr/run.sh deep-att-12m      # on a slice of the data, in minutes
#
# Everything is written below WORK (default: work/wmt14-en-fr). Existing files are kept; the same command resumes.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
model=${1:-deep-att}
seeds=(${SEEDS:-1})
work=${WORK:-work/wmt14-en-fr${SCALE:+-$SCALE}}
mkdir -p "$work"
cd "$work"
source "$recipe/../lib.sh"

# 1. The data of each paper. Zhou et al. 2016: words, vocabularies of 200K and 80K or, for the 12M pairs, 30K per side,
#    and unknown target words with source positions (PosUnk). Wang et al. 2017 and Bahdanau et al. 2015: the same 12M
#    pairs, plain unknown words. Meng and Zhang 2019, Vaswani et al. 2017: joint BPE with 32K merges, joint vocabulary.
case $model in
    deep-att-12m) text=12m data=data-12m vocab=(--src-size 30000 --tgt-size 30000 --unkpos) ;;
    deep-lau-enfr | rnnsearch*) text=12m data=data-12m-plain vocab=(--src-size 30000 --tgt-size 30000) ;;
    dtmt*-enfr | shallow-rnmt-enfr | transformer-*-enfr) text=36m data=data-36m-bpe vocab=(--joint) ;;
    deep-ed* | deep-att | deep-att-[!e]*) text=36m data=data-36m vocab=(--src-size 200000 --tgt-size 80000 --unkpos) ;;
    *) stop "$model is none of this recipe's presets; recipes/README.md lists them" ;;
esac

# 2. The corpora of 2014: 40.8M pairs, of which 36M remain after cleaning (4.).
if [ $text = 36m ] && [ ! -e raw-36m/test.fr ]; then
    fetch http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz
    fetch http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz
    fetch http://www.statmt.org/wmt13/training-parallel-un.tgz
    fetch http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz
    fetch http://www.statmt.org/wmt10/training-giga-fren.tar
    fetch http://statmt.org/wmt12/test.tgz 608232d34ebc4ba2ff70fead45674e47
    fetch http://statmt.org/wmt13/test.tgz 48eca5d02f637af44e85186847141f67
    fetch http://statmt.org/wmt14/test-full.tgz a8cd784e006feb32ac6f3d9ec7eb389a

    mkdir -p corpora
    tar -xf download/www.statmt.org/wmt13/training-parallel-europarl-v7.tgz -C corpora training/europarl-v7.fr-en.{en,fr}
    tar -xf download/www.statmt.org/wmt13/training-parallel-commoncrawl.tgz -C corpora commoncrawl.fr-en.{en,fr}
    tar -xf download/www.statmt.org/wmt13/training-parallel-un.tgz -C corpora un/undoc.2000.fr-en.{en,fr}
    tar -xf download/www.statmt.org/wmt14/training-parallel-nc-v9.tgz -C corpora training/news-commentary-v9.fr-en.{en,fr}
    tar -xf download/www.statmt.org/wmt10/training-giga-fren.tar -C corpora giga-fren.release2.fixed.{en,fr}.gz
    gunzip --force corpora/giga-fren.release2.fixed.{en,fr}.gz
    tar -xf download/statmt.org/wmt12/test.tgz -C corpora test/newstest2012-src.{en,fr}.sgm
    tar -xf download/statmt.org/wmt13/test.tgz -C corpora test/newstest2013-src.{en,fr}.sgm
    tar -xf download/statmt.org/wmt14/test-full.tgz -C corpora test-full/newstest2014-fren-{src.en,ref.fr}.sgm

    check_lines corpora/training/europarl-v7.fr-en.{en,fr} 2007723
    check_lines corpora/commoncrawl.fr-en.{en,fr} 3244152
    check_lines corpora/un/undoc.2000.fr-en.{en,fr} 12886831
    check_lines corpora/training/news-commentary-v9.fr-en.{en,fr} 183251
    check_lines corpora/giga-fren.release2.fixed.{en,fr} 22520376

    # The development set is newstest2012 and 2013 together; for Meng and Zhang, newstest2013 alone.
    for language in en fr; do
        segments corpora/test/newstest2012-src.$language.sgm > corpora/newstest2012.$language
        segments corpora/test/newstest2013-src.$language.sgm > corpora/newstest2013.$language
    done
    segments corpora/test-full/newstest2014-fren-src.en.sgm > corpora/newstest2014.en
    segments corpora/test-full/newstest2014-fren-ref.fr.sgm > corpora/newstest2014.fr
    check_lines corpora/newstest2012.{en,fr} 3003
    check_lines corpora/newstest2013.{en,fr} 3000
    check_lines corpora/newstest2014.{en,fr} 3003

    for language in en fr; do
        collect raw-36m/train.$language 2000 \
            corpora/training/{europarl-v7,news-commentary-v9}.fr-en.$language corpora/commoncrawl.fr-en.$language \
            corpora/un/undoc.2000.fr-en.$language corpora/giga-fren.release2.fixed.$language
        collect raw-36m/dev.$language 20 corpora/newstest201{2,3}.$language
        collect raw-36m/dev-2013.$language 20 corpora/newstest2013.$language
        collect raw-36m/test.$language 20 corpora/newstest2014.$language
    done
fi

# 3. Or the 12M pairs selected from them by Schwenk, already tokenised, with newstest2012+2013 and newstest2014.
if [ $text = 12m ] && [ ! -e raw-12m/test.fr ]; then
    fetch http://www-lium.univ-lemans.fr/~schwenk/cslm_joint_paper/data/bitexts.tgz
    fetch http://www-lium.univ-lemans.fr/~schwenk/cslm_joint_paper/data/dev+test.tgz
    mkdir -p corpora
    tar -xf download/www-lium.univ-lemans.fr/~schwenk/cslm_joint_paper/data/bitexts.tgz -C corpora
    tar -xf download/www-lium.univ-lemans.fr/~schwenk/cslm_joint_paper/data/dev+test.tgz -C corpora
    gunzip --force corpora/bitexts.selected/*.gz

    for language in en fr; do
        cat corpora/bitexts.selected/*.$language > corpora/selected.$language
    done
    check_lines corpora/selected.{en,fr} 12075604
    check_lines corpora/dev/ntst1213.{en,fr} 6003
    check_lines corpora/dev/ntst14.{en,fr} 3003

    for language in en fr; do
        collect raw-12m/train.$language 2000 corpora/selected.$language
        collect raw-12m/dev.$language 20 corpora/dev/ntst1213.$language
        collect raw-12m/test.$language 20 corpora/dev/ntst14.$language
    done
fi

# 4. Data folders. The 36M pairs: Moses tokenisation; case and punctuation are kept, as in the references; pairs of more
#    than 175 words or with a length ratio above 1.5 are left out. The 12M pairs are unchanged.
if [ ! -e $data/manifest.json ]; then
    case $data in
        data-36m)
            nmtkit prep --raw raw-36m -s en -t fr --tokenizer moses --no-normalize --words --max-length 175 --max-ratio 1.5 \
                --output $data
            ;;
        data-36m-bpe)
            nmtkit prep --train raw-36m/train.{en,fr} --dev raw-36m/dev-2013.{en,fr} --test raw-36m/test.{en,fr} \
                --tokenizer moses --no-normalize --bpe 32000 --joint --max-length 175 --max-ratio 1.5 --output $data
            ;;
        *) nmtkit prep --raw raw-12m -s en -t fr --tokenizer none --words --max-length 0 --max-ratio 0 --output $data ;;
    esac
fi

# 5. Word alignment and lexicon, for replacing unknown words; a slice has no word pair with 100 links.
#    LINKS=file uses the links of another aligner, as in the papers, instead of eflomal's (see nmtkit align --help).
if [ $data != data-36m-bpe ] && [ ! -e $data/train.align ]; then
    threshold=100
    if [ "${SCALE:-full}" = tiny ]; then threshold=3; fi
    nmtkit align --data $data --threshold $threshold ${LINKS:+--pharaoh "$LINKS"}
fi

# 6. Vocabularies, and the text encoded as ids.
if [ ! -e $data/ids.json ]; then
    nmtkit vocab --data $data "${vocab[@]}"
fi

# 7. Train with the settings of the preset; finished runs are skipped, others are resumed.
#    For several GPUs: torchrun --nproc-per-node 8 -m nmtkit train ... instead; they share each batch.
train_seeds

# 8. With several seeds, an ensemble of them, which averages their probabilities.
system=${systems[0]}
if [ ${#seeds[@]} -gt 1 ]; then
    system=ensemble-$model
    [ -e "$system" ] || nmtkit ensemble "${systems[@]}" --output "$system"
fi

# 9. Translate newstest2014, and score it as in the papers: cased tokenised BLEU (multi-bleu), also by source length
#    (figure 3 of Zhou et al.).
score=(nmtkit score --language fr)
if [ $text = 12m ]; then score=(nmtkit score --tokenized); fi
if [ $data != data-36m-bpe ]; then score+=(--vocab $data/vocab.tgt); fi
nmtkit translate --model "$system" < raw-$text/test.en > "test.$system.fr"
"${score[@]}" "test.$system.fr" raw-$text/test.fr --source raw-$text/test.en

# 10. Word-based systems also with unknown words replaced (+PosUnk); subwords have no unknown words. The last table of
#     both scores is for sentences without unknown words in the reference (table 9 of Zhou et al., without PosUnk).
if [ $data != data-36m-bpe ]; then
    nmtkit translate --model "$system" --replace-unk --unk-origin papers < raw-$text/test.en > "test.$system.posunk.fr"
    "${score[@]}" "test.$system.posunk.fr" raw-$text/test.fr
fi
