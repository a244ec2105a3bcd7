"""``nmtkit prep``: raw parallel text to a data folder."""

from pathlib import Path
from typing import Annotated

from nmtkit.cli.options import AsJson, log, print_json, say_next
from nmtkit.errors import UserError
from nmtkit.options import Option
from nmtkit.workflow.prep import LARGE, PrepOptions, prepare


def prep(
    options: PrepOptions,
    verify: Annotated[bool, Option(
        "Only compare the files in the data folder with its manifest.", LARGE, before="jobs")] = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Make a data folder from raw parallel text: tokenise, clean, learn and apply BPE.

      nmtkit prep -s en -t fr
      nmtkit prep --train europarl.en.gz europarl.fr.gz --dev dev.en dev.fr --test test.en test.fr
      nmtkit prep --train text.en text.fr --dev-size 1000 --test-size 1000     (sampled from the training text)
      nmtkit prep -s en -t fr --train crawl.tsv.gz:2 crawl.tsv.gz:4     (columns 2 and 4 of a table; or .csv)
      nmtkit prep --train memory.tmx:es memory.tmx:gn --dev-size 500     (a translation memory, or .jsonl)
      nmtkit prep --train texts:es texts:gn --dev-size 500     (all texts in the folder texts)
      nmtkit prep -s zh -t en --tokenizer moses --tokenizer zh=characters --escape --drop script,duplicate
      nmtkit prep -s de -t en --truecase --bpe 32000 --separate -o data-truecased
      nmtkit prep -s en -t fr --tokenizer none --sentencepiece 8000
      nmtkit prep --raw raw-news --like run -o data-news     (for nmtkit train --from run)

    Only training text is cleaned: pairs with control characters, an empty side, too many words or very different
    lengths are left out, and with --drop also pairs with identical sides, in the wrong script, in the development or
    test set, or seen before. The number of pairs and the first line numbers for each rule are shown and kept in
    manifest.json. Development and test text keep every line. All settings are kept in prep.yaml, and nmtkit translate
    applies them. Lengths are counted in tokenised words, or in characters if the language has no spaces between words
    and the tokenizer does not segment it. (--tokenizer none with BPE expects words; for Chinese without spaces, add
    --max-ratio 0.) With the default tokenizer, text is converted to the Unicode normal form of most training lines.
    Soft hyphens and other invisible characters within words are deleted.

    When a run is interrupted, the same command continues it. Machines that share a folder can split a large text; every
    part and the merge take the same options:

      nmtkit prep -s en -t fr --bpe 32000 --shard 1/8     (and 2/8 to 8/8, on any machine)
      nmtkit prep -s en -t fr --bpe 32000 --merge
    """
    output = Path(options.output)
    if as_json and (options.shard or verify):
        raise UserError("--json: describes a whole data folder; leave out --shard and --verify")
    if verify:
        from nmtkit.text import manifest

        log.info(manifest.verify(output))
        return
    report = prepare(options)
    log.info(report)
    if as_json and not isinstance(report, str):
        print_json({"folder": output, **report.manifest})
    elif not options.shard:
        say_next("vocab", ("-d", output, "data"))
