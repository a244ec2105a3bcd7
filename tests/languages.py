"""Whether the default tokenizer is reversible for every line of texts in many languages, except for white space.

Their files are NAME.LANGUAGE.txt, as in NTREX-128 (github.com/MicrosoftTranslator/NTREX): python -m tests.languages
FOLDER. The exit status is 1 if a line is changed.
"""

import sys
from pathlib import Path

from nmtkit.errors import counted
from nmtkit.lines import read_lines
from nmtkit.text.pipeline import TextPipeline
from nmtkit.text.round_trip import describe_loss, round_trip
from nmtkit.text.settings import Side


def main(folder: Path) -> int:
    texts = {path: path.suffixes[-2][1:] for path in sorted(folder.glob("*.*.txt"))}
    lines = same = 0
    for path, language in texts.items():
        pipeline = TextPipeline(Side(language, normalize=False, tokenizer="reversible", segmentation="words"))
        trip = round_trip(pipeline, read_lines(path))
        lines, same = lines + trip.lines, same + trip.same
        if trip.line is not None:
            print(f"{path}: {counted(trip.lines - trip.same, 'line')} changed; {describe_loss(trip._asdict())}")
    print(f"{same:,} of {counted(lines, 'line')} in {counted(len(texts), 'text')} unchanged")
    return int(same < lines)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
