#!/usr/bin/env bash
# WMT'17 English-German, the systems of Miceli Barone et al. 2017: from raw text to scored translations, for one preset.
#
#   recipes/wmt17-en-de/run.sh bideep
#   SCALE=tiny recipes/wmt17-en-de/run.sh nematus-baseline      # on a slice of the data, in minutes
#
# Everything is written below WORK (default: work/wmt17-en-de). Existing files are kept; the same command resumes.
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
model=${1:-bideep}
work=${WORK:-work/wmt17-en-de${SCALE:+-$SCALE}}
mkdir -p "$work"
cd "$work"
source "$recipe/../lib.sh"
case $model in
    nematus-* | bideep*) ;;
    *) stop "$model is none of this recipe's presets; recipes/README.md lists them" ;;
esac

# 1. The parallel corpora of 2017. The development set is newstest2013; the years of the paper's three test sets are
#    missing in our copy of it, so 2014, 2015 and 2016 are translated, and 2013 as well.
if [ ! -e raw/newstest2016.de ]; then
    fetch http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz
    fetch http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz
    fetch http://data.statmt.org/wmt17/translation-task/training-parallel-nc-v12.tgz
    fetch http://data.statmt.org/wmt17/translation-task/rapid2016.tgz
    fetch http://statmt.org/wmt13/test.tgz 48eca5d02f637af44e85186847141f67
    fetch http://statmt.org/wmt14/test-full.tgz a8cd784e006feb32ac6f3d9ec7eb389a
    fetch http://statmt.org/wmt15/test.tgz 67e3beca15e69fe3d36de149da0a96df
    fetch http://data.statmt.org/wmt16/translation-task/test.tgz 3d809cd0c2c86adb2c67034d15c4e446

    mkdir -p corpora
    tar -xf download/www.statmt.org/wmt13/training-parallel-europarl-v7.tgz -C corpora training/europarl-v7.de-en.{en,de}
    tar -xf download/www.statmt.org/wmt13/training-parallel-commoncrawl.tgz -C corpora commoncrawl.de-en.{en,de}
    tar -xf download/data.statmt.org/wmt17/translation-task/training-parallel-nc-v12.tgz -C corpora \
        training/news-commentary-v12.de-en.{en,de}
    tar -xf download/data.statmt.org/wmt17/translation-task/rapid2016.tgz -C corpora rapid2016.de-en.{en,de}
    tar -xf download/statmt.org/wmt13/test.tgz -C corpora test/newstest2013-src.{en,de}.sgm
    tar -xf download/statmt.org/wmt14/test-full.tgz -C corpora test-full/newstest2014-deen-{src.en,ref.de}.sgm
    tar -xf download/statmt.org/wmt15/test.tgz -C corpora test/newstest2015-ende-{src.en,ref.de}.sgm
    tar -xf download/data.statmt.org/wmt16/translation-task/test.tgz -C corpora test/newstest2016-ende-{src.en,ref.de}.sgm
    check_lines corpora/training/europarl-v7.de-en.{en,de} 1920209
    check_lines corpora/commoncrawl.de-en.{en,de} 2399123
    check_lines corpora/training/news-commentary-v12.de-en.{en,de}
    check_lines corpora/rapid2016.de-en.{en,de}

    for language in en de; do
        collect raw/train.$language 2000 corpora/training/{europarl-v7,news-commentary-v12}.de-en.$language \
            corpora/{commoncrawl,rapid2016}.de-en.$language
    done
    segments corpora/test/newstest2013-src.en.sgm > corpora/newstest2013.en
    segments corpora/test/newstest2013-src.de.sgm > corpora/newstest2013.de
    segments corpora/test-full/newstest2014-deen-src.en.sgm > corpora/newstest2014.en
    segments corpora/test-full/newstest2014-deen-ref.de.sgm > corpora/newstest2014.de
    for year in 2015 2016; do
        segments corpora/test/newstest$year-ende-src.en.sgm > corpora/newstest$year.en
        segments corpora/test/newstest$year-ende-ref.de.sgm > corpora/newstest$year.de
    done
    for year in 2013 2014 2015 2016; do
        check_lines corpora/newstest$year.{en,de}
        collect raw/newstest$year.en 20 corpora/newstest$year.en
        collect raw/newstest$year.de 20 corpora/newstest$year.de
    done
fi

# 2. A data folder: tokenised and truecased like the WMT'17 systems of the same group; joint BPE. The number of merges
#    is missing in our copy of the paper; those systems used 90,000. A vocabulary for each side.
if [ ! -e data/manifest.json ]; then
    nmtkit prep --train raw/train.{en,de} --dev raw/newstest2013.{en,de} \
        --tokenizer moses --truecase --bpe 90000 --joint
fi
if [ ! -e data/ids.json ]; then
    nmtkit vocab
fi

# 3. Train with early stopping after ten validations without a lower cross-entropy on newstest2013; the system is the
#    checkpoint of the best BLEU there (section 3). Finished runs are skipped.
nmtkit train --model "$model" --output "run-$model" "${tiny_training[@]}"

# 4. The column CE: nats per sentence on newstest2013, for pairs within the length limit of training, 50 subwords.
nmtkit score --model "run-$model" --split dev --max-length 50

# 5. Translate, and score cased plain text like mteval-v13a, which is the sacreBLEU column.
for year in 2013 2014 2015 2016; do
    nmtkit translate --model "run-$model" < raw/newstest$year.en > "newstest$year.$model.de"
    nmtkit score "newstest$year.$model.de" raw/newstest$year.de --language de
done

# 6. The error analysis and its figure: subject-verb agreement in LingEval97 by distance.
if [ ! -e lingeval97.json ]; then
    fetch https://raw.githubusercontent.com/rsennrich/lingeval97/master/lingeval97.json
    slice='import json, sys; print(json.dumps(json.load(sys.stdin)[:int(sys.argv[1])]))'
    if [ "${SCALE:-full}" = tiny ]; then entries=20; else entries=100000; fi
    python3 -c "$slice" $entries < download/raw.githubusercontent.com/rsennrich/lingeval97/master/lingeval97.json \
        > lingeval97.json.part
    mv lingeval97.json.part lingeval97.json
fi
nmtkit contrast lingeval97.json --model "run-$model" --type subj_verb_agreement
