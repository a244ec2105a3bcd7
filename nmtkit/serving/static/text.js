/**
 * Computations on texts, tokens and attention weights. Nothing here touches the DOM, so
 * tests/serving/test_page_text.py runs it without a browser.
 */

const ALTERNATIVES = 5;      // n-best size
const ALTERNATIVES_UP_TO = 2000;  // characters; for longer texts, only the best translation
const MAX_TABLE = 1e6;       // entries of the longest-common-subsequence table
const MAX_SKIP = 24;         // characters allowed between adjacent words
const UNLIKELY = 0.2;        // mean probability below which a word is doubtful
const MIN_WEIGHT = 0.03;     // attention weights below this are not shown
const DELAYS = [2, 4, 8, 15, 30];  // seconds before each retry

export const percent = (weight) => `${Math.round(100 * weight)}%`;

// ---- Texts ----------------------------------------------------------------------------------------------------------

/** The index in a JavaScript string of each Unicode code point, which is what the server counts, and of the end. */
export function codePointOffsets(text) {
  const offsets = [0];
  for (const character of text) offsets.push(offsets.at(-1) + character.length);
  return offsets;
}

/** A message of the server as a sentence: with a capital letter and a full stop. */
export const asSentence = (message) =>
  `${message[0].toUpperCase()}${message.slice(1)}`.replace(/[^.!?]$/, "$&.");

/** A key as a header can have it. Keys are ASCII; others, typed on another keyboard, become wrong keys. */
export const keyInHeader = (key) => key.replace(/[^ -~]/g, "?");

/** The length of a text as shown below it: with the limit once half of it is used. */
export const characterCount = (count, limit) =>
  `${count.toLocaleString("en")}${2 * count > limit ? ` of ${limit.toLocaleString("en")}` : ""} characters`;

/** Seconds until the next attempt, after this many consecutive failures. */
export const delayAfter = (attempts) => DELAYS[Math.min(attempts, DELAYS.length - 1)];

/** The n-best size and whether to request attention weights, within the limits. */
export function requestOptions(text, model, { limits, n_best }) {
  const limit = Math.min(limits.characters, limits.attention);
  const all = Math.min(ALTERNATIVES, model.beam_size, n_best);
  // The limits count each alternative, so longer texts drop alternatives before attention weights.
  const n = text.length > ALTERNATIVES_UP_TO || all * text.length > limit ? 1 : all;
  return { n_best: n, attention: model.attention && n * text.length <= limits.attention };
}

/**
 * The terms of a list: each line has a term, "=" or a tab, and its translation, with "|" between alternative forms.
 * Incomplete lines are left out.
 */
export function termPairs(list) {
  return list.split("\n").flatMap((line) => {
    const [source, target, ...more] = line.split(/[=\t]/).map((part) => part.trim());
    const complete = source && target && !more.length && target.split("|").every((form) => form.trim());
    return complete ? [[source, target]] : [];
  });
}

/** Whether a file is a table, of which some columns are translated. */
export const isTable = (name) => /\.[ct]sv$/i.test(name);

/** The names or numbers of columns in a list with commas between them. */
export const columnNames = (list) => list.split(",").map((name) => name.trim()).filter((name) => name);

// ---- Words: from tokens to positions in a text ----------------------------------------------------------------------

/**
 * The indices of the tokens of each word. BPE ends a subword with @@ if the rest of its word follows; SentencePiece
 * begins the first subword of a word with U+2581, or sets this mark alone before it.
 */
export function groupSubwords(tokens) {
  const groups = [];
  const pieces = tokens.some((token) => token.startsWith("\u2581")) && !tokens.some((token) => token.endsWith("@@"));
  const continues = (i) =>
    pieces ? !tokens[i].startsWith("\u2581") || tokens[i - 1] === "\u2581" : tokens[i - 1].endsWith("@@");
  tokens.forEach((_, i) => {
    if (i && continues(i)) groups.at(-1).push(i);
    else groups.push([i]);
  });
  return groups;
}

/** A word from its subwords, without the marks of SentencePiece and the joiners of the reversible tokenizer. */
const joinSubwords = (subwords) =>
  subwords.map((subword, i) => (i < subwords.length - 1 ? subword.replace(/@@$/, "") : subword)).join("")
    .replace(/^\u2581*\uffed?|\uffed$/g, "");

/** A text with case and quotes normalised; every character keeps its index. */
function folded(text) {
  const lower = Array.from(text, (character) => {
    const changed = character.toLowerCase();
    return changed.length === character.length ? changed : character;
  }).join("");
  return lower.replace(/[‘’‚‛`´]/g, "'").replace(/[“”„‟«»]/g, '"');
}

const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", "#124": "|", "#91": "[", "#93": "]" };
const unescaped = (word) => word.replace(/&(amp|lt|gt|quot|apos|#124|#91|#93);/g, (_, name) => ENTITIES[name]);

/**
 * The position of each word in a text as [start, end], or null for a word that does not occur.
 *
 * Tokenisation may have changed letters, quotes and spaces. A word is therefore searched for slightly beyond its
 * expected position, and words that are not found share the text between their neighbours.
 */
export function locate(text, words) {
  const haystack = folded(text);
  const positions = [];
  let at = 0;
  for (const word of words) {
    while (at < text.length && /\s/.test(text[at])) at += 1;
    let position = null;
    for (const form of [folded(word), folded(unescaped(word))]) {
      if (position || !form) continue;
      let start = haystack.indexOf(form, at);
      // A word does not begin in the middle of another one; vowels may be marks, and letters have two code units.
      const begins = /^[\p{L}\p{N}]/u.test(form);
      const inside = () => begins && /[\p{L}\p{M}\p{N}]$/u.test(haystack.slice(Math.max(at, start - 2), start));
      while (start >= 0 && inside()) start = haystack.indexOf(form, start + 1);
      if (start >= 0 && start - at <= MAX_SKIP) position = [start, start + form.length];
    }
    positions.push(position);
    if (position) at = position[1];
  }
  positions.forEach((position, i) => {
    const start = i ? positions[i - 1]?.[1] : 0;
    if (position || start === undefined) return;
    const next = positions.slice(i + 1).find((other) => other);
    const gap = text.slice(start, next ? next[0] : text.length);
    if (gap.trim()) positions[i] = [start + gap.length - gap.trimStart().length, start + gap.trimEnd().length];
  });
  return positions;
}

// ---- Translations ---------------------------------------------------------------------------------------------------

/**
 * One translation of a sentence: its words, those of the source, and the attention between them. It is doubtful if its
 * quality is below a limit.
 */
export class Hypothesis {
  constructor(sentence, translation, limit) {
    const replaced = new Map((translation.replaced ?? []).map((each) => [each.token, each]));
    this.text = translation.text;
    this.score = translation.score;
    this.doubtful = translation.quality < limit;
    this.attention = translation.attention ?? null;
    this.source = alignedWords(sentence.source, sentence.tokens, new Map());
    this.target = alignedWords(translation.text, translation.tokens, replaced);
    for (const word of this.target) word.doubtful = isDoubtful(word.tokens.map((t) => translation.token_log_probs?.[t]));
  }

  /** The attention of a target word to a source word. */
  weight(t, s) {
    return this.attention ? meanAttention(this.attention, this.target[t].tokens, this.source[s].tokens) : 0;
  }
}

/** The words of a text: their tokens, form and position, and the token that they replace, if any. */
function alignedWords(text, tokens, replaced) {
  const groups = groupSubwords(tokens);
  const forms = groups.map((group) => {
    const name = tokens[group[0]] !== "<unk>" && replaced.get(group[0]); // copied instead of all subwords of a word
    return joinSubwords(name ? [name.by] : group.map((i) => replaced.get(i)?.by ?? tokens[i]));
  });
  const positions = locate(text, forms);
  return groups.map((group, i) => ({
    tokens: group, subwords: group.map((t) => tokens[t]), form: forms[i], position: positions[i],
    replaced: group.map((t) => replaced.get(t)).find((each) => each),
  }));
}

/** Whether a word is doubtful, by the log-probabilities of its tokens; null is minus infinity. */
export const isDoubtful = (logProbs) =>
  logProbs.includes(null) || Math.exp(logProbs.reduce((sum, each) => sum + each, 0) / logProbs.length) < UNLIKELY;

/** The attention of a word to another one: summed over columns of subwords, averaged over rows. */
export const meanAttention = (attention, rows, columns) =>
  rows.reduce((sum, i) => sum + columns.reduce((all, j) => all + attention[i][j], 0), 0) / rows.length;

/** Whether a weight is large enough to be shown. */
export const isVisible = (weight) => weight >= MIN_WEIGHT;

/** The indices of the largest weights, at most three of those that are visible. */
export const largest = (weights) =>
  [...weights.keys()].filter((i) => isVisible(weights[i])).sort((a, b) => weights[b] - weights[a]).slice(0, 3);

/**
 * For each of two lists of words, the set of the indices outside their longest common subsequence. Lists that are too
 * long for that differ in everything between a common prefix and a common suffix.
 */
export function differences(ours, theirs) {
  let start = 0, end = 0;
  const least = Math.min(ours.length, theirs.length);
  while (start < least && ours[start] === theirs[start]) start += 1;
  while (end < least - start && ours.at(-1 - end) === theirs.at(-1 - end)) end += 1;
  const middles = [ours, theirs].map((words) => words.slice(start, words.length - end));
  const tooLong = middles[0].length * middles[1].length > MAX_TABLE;
  const differing = tooLong ? middles.map((words) => [...words.keys()]) : outsideCommonSubsequence(...middles);
  return differing.map((indices) => new Set(indices.map((i) => start + i)));
}

function outsideCommonSubsequence(ours, theirs) {
  const length = Array.from({ length: ours.length + 1 }, () => new Uint16Array(theirs.length + 1));
  for (let i = ours.length - 1; i >= 0; i -= 1)
    for (let j = theirs.length - 1; j >= 0; j -= 1)
      length[i][j] = ours[i] === theirs[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
  const [mine, others] = [[], []];
  let i = 0, j = 0;
  while (i < ours.length || j < theirs.length) {
    if (i < ours.length && j < theirs.length && ours[i] === theirs[j]) { i += 1; j += 1; }
    else if (j === theirs.length || (i < ours.length && length[i + 1][j] >= length[i][j + 1])) { mine.push(i); i += 1; }
    else { others.push(j); j += 1; }
  }
  return [mine, others];
}
