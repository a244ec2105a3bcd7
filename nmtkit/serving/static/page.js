/** The page: it sends the source text to the server as the reader types, and shows translations and attention. */

import {
  asSentence, characterCount, codePointOffsets, columnNames, delayAfter, differences, Hypothesis, isTable, isVisible,
  keyInHeader, largest, meanAttention, percent, requestOptions, termPairs,
} from "./text.js";

const PAUSE = 300;     // milliseconds after the last key until the text is translated
const PATIENCE = 250;  // milliseconds without a response until the page shows that it is waiting

const find = (id) => document.getElementById(id);
const source = find("source"), mirror = find("mirror");

/** A new element; strings among its children become text, never HTML. */
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

const bold = (text) => make("b", {}, make("bdi", {}, text));

let announcing;
/** Have a screen reader read a text, unless another text replaces it during the pause. */
function announce(text, pause = 0) {
  clearTimeout(announcing);
  announcing = setTimeout(() => { find("announcer").textContent = text; }, pause);
}

// ---- The server -----------------------------------------------------------------------------------------------------

/** The reason why a request failed, whether a retry may help, and the seconds until an automatic retry. */
class RequestError extends Error {
  constructor(message, retry, seconds = null) {
    super(seconds === null ? asSentence(message) : `${asSentence(message)} Retrying in ${seconds}\u00a0s.`);
    Object.assign(this, { reason: message, retry, seconds });
  }
}

/** The server's JSON response to an object or a form. Throws RequestError, and AbortError for a cancelled request. */
async function ask(path, body, signal, attempts) {
  const form = body instanceof FormData;
  let response;
  try {
    response = await fetch(path, body && {
      method: "POST", body: form ? body : JSON.stringify(body), signal,
      headers: { // the browser sets that of a form
        ...(!form && { "Content-Type": "application/json" }),
        ...(page.key && { "X-API-Key": keyInHeader(find("key").value) }),
      },
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError("the server cannot be reached", true, delayAfter(attempts));
  }
  let answer = null;
  try {
    answer = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  if (response.ok && answer) return answer;
  const message = answer?.error ?? `The server answered with status ${response.status} and no explanation.`;
  if (response.status === 503) throw new RequestError(message, true, Number(response.headers.get("Retry-After")) || 2);
  throw new RequestError(message, response.status >= 500 || response.status === 408);
}

// ---- A translation: its panel beside the source; below, alternatives and the attention map --------------------------

/** The server's models and limits, the views, the selected sentence, and whether the selection follows the caret. */
const page = {
  models: [], limits: {}, n_best: 1, doubtful: 0, key: false, views: [], sentence: 0, follows: false, replace: true,
};

class View {
  constructor() {
    this.panel = find("target-panel").content.cloneNode(true).firstElementChild;
    this.inside = find("inside").content.cloneNode(true).firstElementChild;
    this.model = null;      // the server's description
    this.text = "";         // the source text whose translation is shown
    this.sentences = [];    // of that text, each with its hypotheses and the index of the one shown
    this.words = [];        // of the translation in order: sentence, index in the sentence, element
    this.cursor = 0;        // index of the word selected by the arrow keys
    this.subwords = false;  // whether the attention map shows subwords
    this.attempts = 0;      // consecutive requests without a response
    this.request = null;    // aborts the current request
    find("desk").append(this.panel);
    find("insides").append(this.inside);
    this.name();
    this.listen();
  }

  part(selector) { return this.panel.querySelector(selector) ?? this.inside.querySelector(selector); }

  /** Whether the translation has attention weights. */
  get attends() { return this.sentences.some(({ hypotheses }) => hypotheses[0].attention); }

  get number() { return page.views.indexOf(this); }

  /** Give the elements names and descriptions for screen readers, which refer to ids. */
  name() {
    const id = (selector, name) => { this.part(selector).id ||= `${name}-${View.made}`; return this.part(selector).id; };
    View.made += 1;
    this.panel.setAttribute("aria-labelledby", id("h2", "language"));
    this.part(".output").setAttribute("aria-labelledby", id("h2", "language"));
    this.part(".output").setAttribute("aria-describedby", id(".keys", "keys"));
    this.part(".scroll").setAttribute("aria-labelledby", id(".attention h3", "attention"));
    this.part(".alternatives").setAttribute("aria-labelledby", id(".card h3", "alternatives"));
  }

  listen() {
    const output = this.part(".output");
    this.part(".model").addEventListener("change", (event) => this.choose(page.models[event.target.value]));
    this.part(".compare").addEventListener("click", compare);
    this.part(".close").addEventListener("click", stopComparing);
    this.part(".copy").addEventListener("click", () => this.copy());
    this.part(".again").addEventListener("click", () => (page.models.length ? this.translate() : start()));
    this.part(".subwords input").addEventListener("change", (event) => {
      this.subwords = event.target.checked;
      this.drawMap();
    });
    this.part(".unknown input").addEventListener("change", (event) => {
      page.replace = event.target.checked;
      for (const view of page.views) view.translate();
    });
    output.addEventListener("pointerover", (event) => {
      const word = this.wordAt(event.target);
      if (word) this.highlightFrom(word);
      else clearHighlights();
    });
    output.addEventListener("pointerleave", () => clearHighlights());
    output.addEventListener("click", (event) => {
      const word = this.wordAt(event.target);
      if (word) this.moveTo(this.words.indexOf(word), false);
    });
    output.addEventListener("focus", () => { if (output.matches(":focus-visible")) this.moveTo(this.cursor, false); });
    output.addEventListener("blur", () => clearHighlights());
    output.addEventListener("keydown", (event) => this.key(event));
  }

  /** Switch to a model and translate with it. */
  choose(model) {
    const changed = this.model && (model.source !== this.model.source || model.target !== this.model.target);
    this.model = model;
    this.part(".language").textContent = model.names.target;
    this.part(".by").textContent = `translation by ${model.name}`;
    this.part(".output").lang = model.target;
    this.part(".output").dir = model.direction.target;
    if (this.number === 0) {
      find("from-language").textContent = model.names.source;
      source.lang = model.source;
      for (const element of [source, mirror]) element.dir = model.direction.source;
      document.title = `${languages(model)} – nmtkit`;
      if (changed) stopComparing();
    }
    this.clear();
    listModels();
    this.translate();
  }

  // -- Requests --

  /** Request the translation of the source text; the response for an earlier text is dropped. */
  async translate() {
    this.request?.abort();
    clearTimeout(this.retry);
    const text = source.value, request = (this.request = new AbortController());
    if (!this.model) return;
    if (!text.trim() || isTooLong(text)) {
      this.settle();
      this.clear();
      return;
    }
    const patience = setTimeout(() => this.wait(true), PATIENCE);
    // The server decides whether a model without attention can replace unknown words.
    const replace_unk = this.model.attention && { replace_unk: page.replace };
    const pairs = termPairs(find("terms").value), terms = pairs.length > 0 && { terms: pairs };
    const body = { model: this.model.name, text, ...requestOptions(text, this.model, page), ...replace_unk, ...terms };
    try {
      const answer = await ask("v1/translate", body, request.signal, this.attempts);
      if (this.request !== request) return;
      this.settle();
      this.show(text, answer);
    } catch (error) {
      if (this.request !== request) return;
      if (!(error instanceof RequestError)) throw error;
      this.settle(error);
    } finally {
      clearTimeout(patience);
    }
  }

  /** Show or hide the waiting state. */
  wait(waits) {
    this.panel.classList.toggle("waiting", waits);
    this.panel.classList.toggle("stale", waits);
    this.part(".output").ariaBusy = String(waits);
  }

  /** The request has ended, possibly with an error, after which it may be repeated automatically. */
  settle(error = null) {
    this.wait(false);
    this.panel.classList.toggle("stale", error !== null);
    this.part(".why").textContent = error?.message ?? "";
    this.part(".again").hidden = !error?.retry;
    this.attempts = error?.seconds ? this.attempts + 1 : 0;
    if (error?.seconds) this.retry = setTimeout(() => this.part(".again").click(), 1000 * error.seconds);
  }

  // -- Drawing --

  clear() {
    this.text = "";
    this.sentences = [];
    this.draw();
  }

  show(text, answer) {
    const offsets = codePointOffsets(text);
    this.text = text;
    this.after = answer.after;
    this.sentences = answer.sentences.map((sentence) => ({
      before: sentence.before, start: offsets[sentence.start], end: offsets[sentence.end], chosen: 0,
      hypotheses: sentence.translations.map((translation) => new Hypothesis(sentence, translation, page.doubtful)),
    }));
    this.unknown = answer.sentences.some(({ translations: [best] }) =>
      best.unknown && best.unknown.translated + best.unknown.copied + best.unknown.left > 0);
    this.took = `${answer.seconds.toFixed(answer.seconds < 1 ? 2 : 1)} s`;
    this.cursor = 0;
    const typed = this.sentences.indexOf(this.sentenceAt(source.selectionStart));
    if (this.number === 0) page.sentence = page.follows ? Math.max(0, typed) : 0;
    this.draw();
    announceTranslations();
  }

  /** The complete translation with the white space and line breaks of the source. */
  fullText() {
    const texts = this.sentences.map(({ before, hypotheses, chosen }) => before + hypotheses[chosen].text);
    return texts.join("") + this.after;
  }

  draw() {
    const output = this.part(".output"), shown = this.sentences.length > 0;
    this.words = [];
    const nodes = this.sentences.flatMap((sentence, s) => [sentence.before, this.drawSentence(sentence, s)]);
    output.replaceChildren(...(shown ? [...nodes, this.after] : ["The translation appears here."]));
    output.classList.toggle("empty", !shown);
    output.classList.toggle("long", this.text.length > 300);
    output.removeAttribute("aria-activedescendant");
    this.part(".copy").hidden = !shown;
    this.part(".unknown").hidden = !shown || (page.replace && !this.unknown);
    this.part(".unknown input").checked = page.replace;
    this.hint();
    clearHighlights();
    paint();
    compareWords();
    select(Math.min(page.sentence, Math.max(0, page.views[0].sentences.length - 1)));
  }

  drawSentence(sentence, s) {
    const shown = sentence.hypotheses[sentence.chosen], nodes = [];
    let at = 0, last = null;
    sentence.shown = shown;
    sentence.elements = shown.target.map((word, w) => {
      if (!word.position) return null;
      const [start, end] = word.position;
      if (start < at) return last; // words that were not found share one position
      last = make("span", { className: "word", id: `word-${this.number}-${s}-${w}` }, shown.text.slice(start, end));
      last.classList.toggle("replaced", word.replaced !== undefined);
      last.classList.toggle("doubtful", word.doubtful && word.replaced === undefined);
      nodes.push(shown.text.slice(at, start), last);
      this.words.push({ s, w, element: last });
      at = end;
      return last;
    });
    sentence.element = make("span", {}, ...nodes, shown.text.slice(at));
    sentence.element.classList.toggle("doubtful-sentence", shown.doubtful);
    return sentence.element;
  }

  /** The note below the translation while no word is highlighted. */
  hint() {
    this.part(".note").textContent = this.sentences.length === 0 ? ""
      : this.attends ? "Point at a word to see where it came from."
      : this.model.attention ? "This text is too long to show where its words came from."
      : "This model has no attention weights, so the page cannot show where a word came from.";
  }

  async copy() {
    const text = this.fullText(), button = this.part(".copy");
    try {
      await navigator.clipboard.writeText(text);
    } catch { // the clipboard API is not available over plain HTTP
      const box = document.body.appendChild(make("textarea", { value: text }));
      box.select();
      document.execCommand("copy");
      box.remove();
      button.focus();
    }
    button.textContent = "Copied";
    announce("Copied");
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }

  // -- Words --

  wordAt(element) { return this.words.find((word) => word.element === element.closest(".word")); }

  /** The sentence at a position in the source, or the last one before it. */
  sentenceAt(position) { return this.sentences.findLast((sentence) => sentence.start <= position); }

  /** Highlight the source words that a word of the translation attends to; returns the text of the note. */
  highlightFrom({ s, w }) {
    clearHighlights();
    const sentence = this.sentences[s], { target, source: words } = sentence.shown, word = target[w];
    const weights = words.map((_, i) => sentence.shown.weight(w, i));
    sentence.elements[w]?.classList.add("here");
    words.forEach((word, i) => {
      for (const piece of piecesOf(sentence, word)) highlight(piece.element, weights[i]);
    });
    if (!this.attends && !word.replaced) return this.part(".note").textContent;
    const note = [bold(word.form)];
    if (word.replaced) {
      const origin = words.find(({ tokens }) => tokens.includes(word.replaced.source));
      note.push(" replaces an unknown word: ");
      note.push(word.replaced.how === "translated" ? "the lexicon’s translation of " : "a copy of ", bold(origin.form));
      note.push(this.attends ? ". It" : ".");
    }
    if (this.attends) note.push(" attends to ", ...listed(words, weights));
    return this.setNote(note);
  }

  /** Highlight the words of the translation that attend to the source word at a position. */
  highlightTo(position) {
    const sentence = this.sentenceAt(position);
    const words = sentence?.shown.source ?? [];
    const at = ({ start, end }) => start <= position && position < end;
    const i = words.findIndex((word) => piecesOf(sentence, word).some(at));
    if (i < 0 || !this.attends) return;
    for (const piece of piecesOf(sentence, words[i])) piece.element.classList.add("here");
    const weights = sentence.shown.target.map((_, t) => sentence.shown.weight(t, i));
    weights.forEach((weight, t) => { if (sentence.elements[t]) highlight(sentence.elements[t], weight); });
    this.setNote([bold(words[i].form), " is attended to by ", ...listed(sentence.shown.target, weights)]);
  }

  setNote(parts) {
    this.part(".note").replaceChildren(...parts);
    return this.part(".note").textContent;
  }

  /** Move the cursor of the arrow keys to a word of the translation. */
  moveTo(to, spoken) {
    if (!this.words.length) return;
    this.cursor = Math.max(0, Math.min(to, this.words.length - 1));
    const word = this.words[this.cursor];
    if (word.s !== page.sentence) select(word.s);
    const note = this.highlightFrom(word);
    this.part(".output").setAttribute("aria-activedescendant", word.element.id);
    word.element.scrollIntoView({ block: "nearest" });
    if (spoken) announce(note);
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    const along = this.part(".output").dir === "rtl" ? -1 : 1;
    const steps = { ArrowRight: along, ArrowLeft: -along, ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) this.moveTo(this.cursor + steps[event.key], true);
    else if (event.key === "Home") this.moveTo(0, true);
    else if (event.key === "End") this.moveTo(this.words.length - 1, true);
    else if (event.key === "Escape") clearHighlights();
    else return;
    event.preventDefault();
  }

  // -- Below: alternatives and attention of the selected sentence --

  drawInside() {
    const sentence = this.sentences[page.sentence], named = page.views.length > 1 ? ` · ${this.model?.name}` : "";
    this.inside.hidden = !sentence;
    if (!sentence) return;
    this.part(".card h3").textContent = `Alternatives${named}`;
    this.part(".attention h3").textContent = `Attention${named}`;
    const words = sentence.hypotheses[0].text.split(" ");
    this.part(".alternatives").replaceChildren(...sentence.hypotheses.map((hypothesis, i) => {
      const mine = hypothesis.text.split(" "), differ = i ? differences(words, mine)[1] : new Set();
      const text = make("bdi", { lang: this.model.target, dir: this.model.direction.target });
      mine.forEach((word, j) => text.append(j ? " " : "", differ.has(j) ? bold(word) : word));
      // null is minus infinity, which JSON does not have.
      const value = hypothesis.score?.toFixed(2).replace("-", "−") ?? "−∞";
      const score = make("span", { className: "score", title: "The score by which the translations are ranked" });
      score.append(make("span", { className: "unseen" }, "score "), value);
      const button = make("button", { type: "button", ariaPressed: String(i === sentence.chosen) }, text, score);
      button.addEventListener("click", () => this.chooseAlternative(i));
      return make("li", {}, button);
    }));
    this.drawMap();
  }

  /** Show another translation of the selected sentence. */
  chooseAlternative(i) {
    this.sentences[page.sentence].chosen = i;
    this.draw();
    this.part(".alternatives").children[i].firstChild.focus();
  }

  /** The attention of the selected sentence as a table: a row for each target word, a column for each source word. */
  drawMap() {
    const { shown } = this.sentences[page.sentence], sides = [shown.target, shown.source];
    this.part(".attention").hidden = !shown.attention;
    if (!shown.attention) return;
    this.part(".subwords").hidden = sides.every((words) => words.every((word) => word.tokens.length === 1));
    const [rows, columns] = sides.map((words) => this.headings(words));
    const heading = (scope, each) => make("th", { scope, className: each.end ? "mark" : "" }, make("bdi", {}, each.form));
    const head = make("tr", {}, make("td"), ...columns.map((column) => heading("col", column)));
    const body = rows.map((row) => make("tr", {}, heading("row", row), ...columns.map((column) => {
      const weight = meanAttention(shown.attention, row.tokens, column.tokens), text = String(Math.round(100 * weight));
      const cell = make("td", { className: "cell" }, weight < 0.05 ? make("span", { className: "unseen" }, text) : text);
      cell.style.setProperty("--weight", Math.sqrt(weight).toFixed(3));
      return cell;
    })));
    const caption = make("caption", { className: "unseen" },
      "Attention weights in percent: a row for each word of the translation, a column for each word of the source");
    const parts = [caption, make("thead", {}, head), make("tbody", {}, ...body)];
    const table = make("table", { dir: this.model.direction.source }, ...parts);
    table.addEventListener("pointerover", (event) => this.pointAt(table, event.target.closest("td.cell"), rows));
    table.addEventListener("pointerleave", () => this.pointAt(table, null, rows));
    this.part(".scroll").replaceChildren(table);
  }

  /** The headings of the rows or columns of the map: words or subwords, and the end of the sentence. */
  headings(words) {
    const shown = words.flatMap(({ tokens, form, subwords }, w) =>
      this.subwords ? tokens.map((token, i) => ({ tokens: [token], form: subwords[i], w })) : [{ tokens, form, w }]);
    return [...shown, { tokens: [words.reduce((sum, { tokens }) => sum + tokens.length, 0)], form: "end", end: true }];
  }

  /** Mark the headings of a cell of the map, and highlight its word in the texts. */
  pointAt(table, cell, rows) {
    for (const heading of table.querySelectorAll(".pointed")) heading.classList.remove("pointed");
    clearHighlights();
    if (!cell) return;
    const row = rows[cell.parentElement.sectionRowIndex];
    cell.parentElement.firstChild.classList.add("pointed");
    table.tHead.rows[0].cells[cell.cellIndex].classList.add("pointed");
    if (!row.end) this.highlightFrom({ s: page.sentence, w: row.w });
  }
}
View.made = 0;

/** "dog 83%, brown 9%.": the words with the largest weights. */
function listed(words, weights) {
  const indices = largest(weights);
  if (!indices.length) return ["no single word."];
  return indices.flatMap((i, n) => [n ? ", " : "", bold(words[i].form), ` ${percent(weights[i])}`]).concat(".");
}

// ---- Highlights -----------------------------------------------------------------------------------------------------

let pieces = []; // of the source, cut where a word of any model begins or ends: start, end, element

/** Copy the source behind its text box, where its words can be highlighted. */
function paint() {
  const text = source.value, edges = new Set([0, text.length]);
  for (const view of page.views) {
    if (view.text !== text) continue;
    for (const { start, end, shown } of view.sentences) {
      edges.add(start).add(end);
      for (const { position } of shown.source) if (position) edges.add(start + position[0]).add(start + position[1]);
    }
  }
  const sorted = [...edges].sort((a, b) => a - b);
  pieces = sorted.slice(1).map((end, i) => ({
    start: sorted[i], end, element: make("span", { className: "word" }, text.slice(sorted[i], end)),
  }));
  // An empty last line would have no height.
  mirror.replaceChildren(...pieces.map(({ element }) => element), "\u200b");
  find("from").classList.toggle("long", text.length > 300);
}

/** The pieces of a source word of a sentence; none if the word was not found in the source. */
function piecesOf({ start }, { position }) {
  if (!position) return [];
  return pieces.filter((piece) => start + position[0] <= piece.start && piece.end <= start + position[1]);
}

function highlight(element, weight) {
  if (!isVisible(weight)) return;
  element.classList.add("lit");
  element.style.setProperty("--weight", Math.sqrt(weight).toFixed(3));
}

/** Remove every highlight. */
function clearHighlights() {
  for (const element of document.querySelectorAll(".word.lit, .word.here")) element.classList.remove("lit", "here");
  for (const view of page.views) view.hint();
}

/** Highlight the words that attend to the source word at a position. */
function highlightSource(position) {
  clearHighlights();
  for (const view of page.views) if (view.text === source.value) view.highlightTo(position);
}

/** Have a screen reader read the translations after the user stops typing. */
function announceTranslations() {
  const texts = page.views.filter((view) => view.text === source.value && view.text)
    .map((view) => `${view.model.names.target}${page.views.length > 1 ? `, ${view.model.name}` : ""}: ${view.fullText()}`);
  announce(texts.join(" "), 1000);
}

/** Mark the words that differ between the translations of two models. */
function compareWords() {
  const [first, second] = page.views;
  for (const view of page.views) view.part(".took").textContent = view.sentences.length ? view.took : "";
  for (const element of document.querySelectorAll(".differs")) element.classList.remove("differs");
  if (!second || !first.text || first.text !== second.text || first.sentences.length !== second.sentences.length) return;
  let count = 0;
  first.sentences.forEach((sentence, s) => {
    const sides = [sentence, second.sentences[s]].map(({ elements }) => [...new Set(elements)].filter((element) => element));
    const differ = differences(...sides.map((elements) => elements.map((element) => element.textContent)));
    sides.forEach((elements, i) => differ[i].forEach((at) => elements[at].classList.add("differs")));
    count += Math.max(differ[0].size, differ[1].size);
  });
  const words = count === 0 ? "no word differs" : count === 1 ? "1 word differs" : `${count} words differ`;
  second.part(".took").textContent = `${second.took} · ${words}`;
}

// ---- The page -------------------------------------------------------------------------------------------------------

/** Select a sentence, whose alternatives and attention are shown. */
function select(s) {
  page.sentence = s;
  const [{ sentences }] = page.views;
  for (const view of page.views) {
    view.drawInside();
    view.sentences.forEach(({ element }, i) => element.classList.toggle("chosen", i === s && view.sentences.length > 1));
  }
  const { start, end } = sentences.length > 1 ? sentences[s] : { start: 0, end: 0 };
  for (const piece of pieces)
    piece.element.classList.toggle("chosen", start <= piece.start && piece.end <= end && start < end);
  find("chooser").hidden = sentences.length < 2;
  find("which").textContent = `Sentence ${s + 1} of ${sentences.length}`;
  find("previous").disabled = s === 0;
  find("next").disabled = s >= sentences.length - 1;
}

/** Whether a text is too long to be translated; its length is shown below it. */
function isTooLong(text) {
  const limit = page.limits.characters, count = codePointOffsets(text).length - 1, over = count > limit;
  find("clear").hidden = !text;
  find("count").textContent = text ? characterCount(count, limit) : "";
  find("count").classList.toggle("over", over);
  if (over) announce(`The text is too long: it has ${count} characters, and the limit is ${limit}.`, 500);
  return over;
}

const languages = (model) => `${model.names.source} to ${model.names.target}`;

/** The models for the same languages, including this one. */
const partnersOf = ({ source, target }) =>
  page.models.filter((model) => model.source === source && model.target === target);

/** List the models to choose from. */
function listModels() {
  const pairs = new Set(page.models.map(languages)), partners = partnersOf(page.views[0].model);
  for (const view of page.views) {
    const first = view.number === 0, choice = first ? page.models : partners, select = view.part(".model");
    const options = choice.map((model) =>
      make("option", { value: page.models.indexOf(model), selected: model === view.model }, model.name));
    const group = (pair) => make("optgroup", { label: pair }, ...options.filter((_, i) => languages(choice[i]) === pair));
    select.replaceChildren(...(first && pairs.size > 1 ? [...pairs].map(group) : options));
    select.hidden = page.models.length < 2;
    view.part(".compare").hidden = !first || page.views.length > 1 || partners.length < 2;
    view.part(".close").hidden = first;
  }
  find("insides").className = page.views.length > 1 ? "two" : "one";
}

function compare() {
  const [first] = page.views, second = new View();
  page.views.push(second);
  second.choose(partnersOf(first.model).find((model) => model !== first.model));
  second.part(".model").focus();
}

function stopComparing() {
  for (const view of page.views.splice(1)) {
    view.request?.abort();
    clearTimeout(view.retry);
    view.panel.remove();
    view.inside.remove();
  }
  listModels();
  page.views[0].draw();
  page.views[0].part(".compare").focus();
}

let typing;
function changed(pause) {
  clearTimeout(typing);
  isTooLong(source.value);
  paint();
  clearHighlights();
  page.follows = pause > 0; // after pasting, the first sentence is selected
  typing = setTimeout(() => { for (const view of page.views) view.translate(); }, pause);
}

source.addEventListener("input", (event) => {
  changed(event.inputType === "insertFromPaste" || !source.value.trim() ? 0 : PAUSE);
});
source.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) changed(0);
});
source.addEventListener("keyup", (event) => {
  if (/^(Arrow|Home|End|Page)/.test(event.key)) atCaret();
});
source.addEventListener("click", atCaret);
source.addEventListener("blur", clearHighlights);
source.addEventListener("pointermove", (event) => {
  const under = new Set(document.elementsFromPoint(event.clientX, event.clientY));
  const piece = pieces.find(({ element }) => under.has(element));
  if (piece === pointed) return;
  pointed = piece;
  if (piece) highlightSource(piece.start);
  else clearHighlights();
});
source.addEventListener("pointerleave", () => { pointed = undefined; clearHighlights(); });

let pointed; // the piece of the source under the pointer

/** Highlight the words that attend to the word at the caret, and select its sentence. */
function atCaret() {
  const position = source.selectionStart, [view] = page.views;
  const s = view.text === source.value ? view.sentences.indexOf(view.sentenceAt(position)) : -1;
  if (s >= 0 && s !== page.sentence) select(s);
  highlightSource(position);
}

find("access").addEventListener("submit", (event) => {
  event.preventDefault();
  changed(0);
});
find("key").addEventListener("change", () => changed(0));
find("terms").addEventListener("input", () => changed(PAUSE));
find("clear").addEventListener("click", () => {
  source.value = "";
  changed(0);
  source.focus();
});
find("open").addEventListener("click", () => find("file").click());
find("file").addEventListener("change", () => chooseFile(find("file").files[0]));
find("translate-table").addEventListener("click", () => find("table").requestSubmit());
find("table").addEventListener("submit", (event) => {
  event.preventDefault();
  translateFile(table, columnNames(find("columns").value));
});

let table; // the table whose columns are asked for

/** Say what happens to a file. */
function tell(text, failed = false) {
  find("told").textContent = text;
  find("told").classList.toggle("failed", failed);
}

/** Translate a file, or first ask for the columns of a table. */
function chooseFile(file) {
  if (!file) return;
  find("file").value = ""; // so that the same file can be chosen again
  find("table").hidden = !isTable(file.name);
  if (!isTable(file.name)) return translateFile(file, []);
  table = file;
  tell(`${file.name} is a table. Which columns should be translated?`);
  find("columns").focus();
}

/** Translate a document with the first model, and have the browser save it. columns: those of a table. */
async function translateFile(file, columns) {
  if (find("open").disabled) return;
  const form = new FormData();
  form.append("file", file);
  for (const column of columns) form.append("columns", column);
  form.append("model", page.views[0].model.name);
  form.append("terms", JSON.stringify(termPairs(find("terms").value)));
  find("open").disabled = true;
  tell(`Translating ${file.name}`);
  try {
    const answer = await ask("translate_file", form, null, 0), name = answer.translatedFileUrl.split("/").at(-1);
    // The address is relative, because the server may be behind a proxy.
    make("a", { href: `download_file/${name}`, download: "" }).click();
    tell(`${file.name} has been translated.`);
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    tell(asSentence(error.reason), true);
  } finally {
    find("open").disabled = false;
  }
}

find("previous").addEventListener("click", () => select(page.sentence - 1));
find("next").addEventListener("click", () => select(page.sentence + 1));

/** Load the list of models; until then the source is disabled. */
async function start() {
  const view = page.views[0] ?? new View();
  page.views[0] = view;
  try {
    Object.assign(page, await ask("v1/models", null, null, view.attempts));
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    view.settle(error);
    return;
  }
  find("access").hidden = !page.key;
  view.settle();
  view.choose(page.models[0]);
  source.disabled = find("open").disabled = false;
  source.focus();
  if (source.value) changed(0); // restored by the browser after a reload
}

start();
