"""``nmtkit prep``: raw parallel text to a data folder."""

import json
from pathlib import Path
from typing import Annotated

import typer

from nmtkit.cli.options import AsJson, Jobs, Raw, SourceLanguage, TargetLanguage, log, say_next
from nmtkit.errors import UserError
from nmtkit.text.settings import Cleaning, Development
from nmtkit.workflow import prep as workflow

TwoFiles = tuple[Path, Path]


def prep(
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    raw: Raw = Path("raw"),
    train: Annotated[TwoFiles | None, typer.Option(metavar="SRC TGT",
        help="Training text: two files, used instead of the folder --raw.")] = None,
    dev: Annotated[TwoFiles | None, typer.Option(metavar="SRC TGT", help="Development text: two files.")] = None,
    test: Annotated[TwoFiles | None, typer.Option(metavar="SRC TGT", help="Test text: two files.")] = None,
    dev_reference: Annotated[list[Path] | None, typer.Option(metavar="FILE",
        help="Another reference for the development text, used for BLEU in training; may be repeated.")] = None,
    dev_size: Annotated[int | None, typer.Option(min=1,
        help="Draw a development set of this many pairs from the training text.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of --dev-size.")] = Development.seed,
    output: Annotated[Path, typer.Option("--output", "-o", help="Data folder to write.")] = Path("data"),
    like: Annotated[Path | None, typer.Option(metavar="FOLDER",
        help="Tokenise, truecase and segment as in this data or model folder, with the models learnt there.")] = None,
    tokenizer: Annotated[list[str] | None, typer.Option(metavar="[LANGUAGE=]NAME", show_default=False,
        help="Tokenizer, for both languages or for one: reversible, from which the text of every language comes back "
        "as it was written; moses, as papers use it, which knows as, bn, ca, cs, de, el, en, es, et, fi, fr, ga, gu, "
        "hi, hu, is, it, kn, lt, lv, ml, mni, mr, nl, or, pa, pl, pt, ro, ru, sk, sl, sv, ta, tdt, te, yue and zh; "
        "characters, Moses with every Chinese or Japanese character a word; or none, for words that are separated by "
        "spaces already. May be repeated.  [default: reversible]")] = None,
    tokenizer_command: Annotated[list[str] | None, typer.Option(metavar="LANGUAGE=COMMAND",
        help="Program that segments text before the tokenizer; it must answer each line with one line.")] = None,
    aggressive_hyphens: Annotated[bool, typer.Option("--aggressive-hyphens",
        help="Split words at hyphens (well @-@ known), like Moses' -a.")] = False,
    protect: Annotated[list[str] | None, typer.Option(metavar="REGEX",
        help="Do not split what matches this, like Moses' -protected; may be repeated.")] = None,
    escape: Annotated[bool, typer.Option("--escape",
        help="Escape special characters (&apos;), like Moses.")] = False,
    normalize: Annotated[bool | None, typer.Option("--normalize/--no-normalize", show_default=False,
        help="Normalise punctuation like Moses: typographic quotes and dashes become plain ones, which translations "
             "then have, too.  [default: yes for the tokenizers moses and characters]")] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Lower-case all text.")] = False,
    truecase: Annotated[bool, typer.Option("--truecase",
        help="Truecase: give the first word of each sentence its most frequent case.")] = False,
    bpe: Annotated[int | None, typer.Option(min=1, show_default=False,
        help="Number of BPE merges to learn.  [default: 2000 to 32000, by the number of training words]")] = None,
    joint: Annotated[bool | None, typer.Option("--joint/--separate", show_default=False,
        help="Learn BPE or SentencePiece on both languages together or on each alone.  [default: joint]")] = None,
    sentencepiece: Annotated[int | None, typer.Option(min=1, metavar="N",
        help="Learn SentencePiece with N pieces instead of BPE, usually with --tokenizer none.")] = None,
    words: Annotated[bool, typer.Option("--words", help="Use whole words, without BPE.")] = False,
    max_length: Annotated[int, typer.Option(min=0,
        help="Leave out training pairs with more words (before BPE) than this on either side; "
        "0: no limit.")] = Cleaning.max_length,
    max_ratio: Annotated[float, typer.Option(min=0,
        help="Leave out training pairs with one side more than this many times as long as the other; "
        "0: no limit.")] = Cleaning.max_ratio,
    drop: Annotated[str | None, typer.Option(metavar="RULE,...",
        help="Also leave out training pairs by these rules: identical, script, overlap, "
        "duplicate (see above).")] = None,
    keep_rejected: Annotated[Path | None, typer.Option(metavar="FILE",
        help="Write the training pairs that are left out to this file: line number, rule, both sides.")] = None,
    shard: Annotated[str | None, typer.Option(metavar="I/N",
        help="Only tokenise and clean part I of N of the training text.")] = None,
    merge: Annotated[bool, typer.Option("--merge",
        help="Make the data folder from all parts made with --shard.")] = False,
    verify: Annotated[bool, typer.Option("--verify",
        help="Only compare the files in the data folder with its manifest.")] = False,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Make a data folder from raw parallel text: tokenise, clean, learn and apply BPE.

      nmtkit prep -s en -t fr

      nmtkit prep --train europarl.en.gz europarl.fr.gz --dev dev.en dev.fr --test test.en test.fr

      nmtkit prep --train text.en text.fr --dev-size 1000     (a development set drawn from the training text)

      nmtkit prep -s en -t fr --train crawl.tsv.gz:2 crawl.tsv.gz:4     (columns 2 and 4 of a table)

      nmtkit prep -s zh -t en --tokenizer moses --tokenizer zh=characters --escape --drop script,duplicate

      nmtkit prep -s de -t en --truecase --bpe 32000 --separate -o data-truecased

      nmtkit prep -s en -t fr --tokenizer none --sentencepiece 8000

      nmtkit prep --raw raw-news --like run -o data-news     (for nmtkit train --from run)

    Only training text is cleaned: pairs with control characters, an empty side, or too many words or too different
    lengths are left out, and with --drop also those with identical sides, in another script than the language's, that
    are in the development or test set, or that occurred before. The number of pairs and the first line numbers for each
    rule are shown and kept in manifest.json. Development and test text keep every line. All settings are kept in
    prep.yaml, and nmtkit translate repeats them. Words are what the tokenizer makes; with --tokenizer none a line of
    Chinese or Japanese is one word, so add --max-ratio 0 there.

    When a run is interrupted, the same command continues it. Machines that share a folder can share a large text; every
    part and the merge take the same options:

      nmtkit prep -s en -t fr --bpe 32000 --shard 1/8     (and 2/8 to 8/8, on any machine)

      nmtkit prep -s en -t fr --bpe 32000 --merge
    """
    if as_json and (shard or verify):
        raise UserError("--json: is of a whole data folder; leave out --shard and --verify")
    # Reads the folder alone: neither raw text nor settings are needed.
    if verify:
        from nmtkit.text import manifest

        log.info(manifest.verify(output))
        return
    report = workflow.prep(
        raw, output, src_lang=src_lang, tgt_lang=tgt_lang, train=train, dev=dev, test=test,
        dev_reference=dev_reference or (), dev_size=dev_size, seed=seed, like=like, tokenizer=tokenizer or (),
        tokenizer_command=tokenizer_command or (), aggressive_hyphens=aggressive_hyphens, protect=protect or (),
        escape=escape, normalize=normalize, lowercase=lowercase, truecase=truecase, bpe=bpe,
        sentencepiece=sentencepiece, joint=joint, words=words, max_length=max_length, max_ratio=max_ratio,
        drop=drop or (), keep_rejected=keep_rejected, shard=shard, merge=merge, jobs=jobs,
    )  # fmt: skip
    log.info(report)
    if as_json and not isinstance(report, str):
        # What is kept in manifest.json, too.
        print(json.dumps({"folder": str(output), **report.manifest}, indent=2, ensure_ascii=False))
    elif not shard:
        say_next("vocab", ("-d", output, "data"))
