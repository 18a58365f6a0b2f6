"use strict";
(() => {
  const PAGE_SIZE = 12;
  const MOST_DIGITS = 8;
  const OUTCOMES = { right: "1", wrong: "0", tied: "t" };
  const SIGN = { won: "✓", lost: "✕", even: "=" };

  // Every text that comes from data passes through here as a text node: nothing is ever parsed as HTML.
  const make = (name, properties = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
      if (key === "class") node.className = value;
      else node.setAttribute(key, value);
    }
    node.append(...children);
    return node;
  };
  const parse = (id) => JSON.parse(document.getElementById(id).textContent);
  const page = parse("report-data");
  const dialog = document.getElementById("item");
  const pictures = new Map();
  const picture = (section, index) => {
    if (!pictures.has(section)) pictures.set(section, parse(`${section.anchor}-pictures`));
    return pictures.get(section)[index];
  };

  // ---- one item's matrix

  // A shape may name, after images and texts, how many texts of one image are true.
  const isTrue = ([images, texts, several = 1], image, text) =>
    images === texts ? image === text : image === 0 && text < several;

  // A true pair wins if every false pair of its row and column scores lower; it ties if the highest equals it.
  const standing = (shape, scores, image, text) => {
    const [images, texts] = shape;
    const own = scores[image * texts + text];
    let rival = -Infinity;
    for (let i = 0; i < images; i++)
      for (let t = 0; t < texts; t++)
        if ((i === image) !== (t === text) && !isTrue(shape, i, t)) rival = Math.max(rival, scores[i * texts + t]);
    return own > rival ? "won" : own === rival ? "even" : "lost";
  };

  // The fewest decimals that keep different scores different, so that no tie is shown where there is none.
  const writer = (scores) => {
    const largest = Math.max(...scores.map(Math.abs));
    const distinct = new Set(scores).size;
    for (let digits = largest >= 100 ? 1 : largest >= 10 ? 2 : 3; digits <= MOST_DIGITS; digits++) {
      const write = (score) => score.toFixed(digits);
      if (new Set(scores.map(write)).size === distinct) return write;
    }
    return String;
  };

  const LIGHT = [240, 245, 251];
  const DARK = [13, 59, 122];
  const paint = (cell, share) => {
    const mixed = LIGHT.map((from, k) => Math.round(from + (DARK[k] - from) * share));
    cell.style.backgroundColor = `rgb(${mixed.join(" ")})`;
    cell.style.color = share > 0.68 ? "#fff" : "#000";
  };

  const badge = (state, text) => make("span", { class: `badge ${state}` }, `${SIGN[state]} ${text}`);

  const scoreCell = (section, scores, image, text, write) => {
    const low = Math.min(...scores);
    const high = Math.max(...scores);
    const value = scores[image * section.shape[1] + text];
    const cell = make("td", { title: `image ${image}, text ${text}: ${value}` }, write(value));
    paint(cell, high > low ? (value - low) / (high - low) : 0.35);
    if (isTrue(section.shape, image, text)) {
      const state = standing(section.shape, scores, image, text);
      cell.classList.add("true", state);
      cell.append(badge(state, "true"));
    }
    return cell;
  };

  // ---- what differs between two captions

  // A word, or a letter of a script that puts no space between words.
  const WORD = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]|[\p{L}\p{N}\p{M}]+(?:['’][\p{L}\p{M}]+)*/gu;
  const fold = (word) => word.normalize("NFKC").toLowerCase().replace("’", "'");

  // Which words of a have no like in b, in order: as few marks as can be on both sides, then as few edits.
  const MARK = 4096;
  const changes = (a, b) => {
    const costs = Array.from({ length: a.length + 1 }, () => new Float64Array(b.length + 1));
    const steps = (i, k) => [
      i < a.length && k < b.length ? costs[i + 1][k + 1] + (a[i] === b[k] ? 0 : 2 * MARK + 1) : Infinity,
      i < a.length ? costs[i + 1][k] + MARK + 1 : Infinity,
      k < b.length ? costs[i][k + 1] + MARK + 1 : Infinity,
    ];
    for (let i = a.length; i >= 0; i--)
      for (let k = b.length; k >= 0; k--) if (i < a.length || k < b.length) costs[i][k] = Math.min(...steps(i, k));
    const marks = [];
    for (let i = 0, k = 0; i < a.length; ) {
      const [both, mine] = steps(i, k);
      if (both === costs[i][k]) marks.push(a[i++] !== b[k++]);
      else if (mine === costs[i][k]) marks.push(true), i++;
      else k++;
    }
    return marks;
  };

  // Mark the words that the other caption does not have at that place. Case and punctuation are no difference, unless
  // they are the only one.
  const marked = (text, other) => {
    const parse = (from, pattern, key) => [...from.matchAll(pattern)].map((found) =>
      ({ start: found.index, end: found.index + found[0].length, key: key(found[0]) }));
    const keys = (words) => words.map((word) => word.key);
    let [words, others] = [text, other ?? text].map((from) => parse(from, WORD, fold));
    if (keys(words).join(" ") === keys(others).join(" "))
      [words, others] = [text, other ?? text].map((from) => parse(from, /\S+/g, (word) => word));
    const marks = changes(keys(words), keys(others));
    const parts = [];
    let end = 0;
    for (let first = 0, last; first < words.length; first = last + 1) {
      last = first;
      if (!marks[first]) continue;
      // One mark for neighbours with nothing but space between them.
      while (marks[last + 1] && !text.slice(words[last].end, words[last + 1].start).trim()) last++;
      parts.push(text.slice(end, words[first].start), make("mark", {}, text.slice(words[first].start, words[last].end)));
      end = words[last].end;
    }
    return [...parts, text.slice(end)];
  };

  const textHead = (section, item, text, scope) => {
    const texts = section.items.texts[item];
    const head = make("th", { scope, class: scope === "row" ? "caption beside" : "caption", dir: "auto" });
    if (text >= texts.length) head.append(make("span", { class: "absent" }, `text ${text}`));
    else head.append(...marked(texts[text], texts[text === 0 ? 1 : 0]));
    return head;
  };

  const imageHead = (section, item, image, scope) => {
    const index = section.items.pictures[item][image] ?? -1;
    const label = `image ${image}`;
    const content = index < 0
      ? make("span", { class: "absent" }, label)
      : make("img", { src: picture(section, index), alt: `${label} of item ${section.items.ids[item]}` });
    return make("th", { scope }, content);
  };

  // Rows are images and columns texts, as in the papers; one image with several texts reads better the other way.
  const matrix = (section, model, item) => {
    const [images, texts] = section.shape;
    const scores = model.scores[item];
    const write = writer(scores);
    const turned = images === 1 && texts > 1;
    const [rows, columns] = turned ? [texts, images] : [images, texts];
    const [rowHead, columnHead] = turned ? [textHead, imageHead] : [imageHead, textHead];
    const table = make("table", { class: turned ? "matrix turned" : "matrix" });
    table.append(make("colgroup", {}, make("col", { class: "side" })));
    const top = make("tr", {}, make("td", { "aria-hidden": "true" }));
    for (let c = 0; c < columns; c++) top.append(columnHead(section, item, c, "col"));
    const body = make("tbody");
    for (let r = 0; r < rows; r++) {
      const row = make("tr", {}, rowHead(section, item, r, "row"));
      for (let c = 0; c < columns; c++)
        row.append(turned ? scoreCell(section, scores, c, r, write) : scoreCell(section, scores, r, c, write));
      body.append(row);
    }
    table.append(make("thead", {}, top), body);
    return table;
  };

  const verdicts = (model, item, names) => {
    const list = make("ul", { class: "verdicts" });
    for (const name of names) {
      const code = model.outcomes[name]?.[item];
      if (code === undefined) continue;
      const state = code === "1" ? "won" : code === "t" ? "even" : "lost";
      const word = { won: "right", even: "tied, so not right", lost: "wrong" }[state];
      const mark = badge(state, name);
      mark.title = `${name}: ${word}`;
      mark.setAttribute("aria-label", `${name}: ${word}`);
      list.append(make("li", {}, mark));
    }
    return list;
  };

  const tagLine = (section, item) =>
    Object.entries(section.items.tags).filter(([, column]) => column.of[item] >= 0)
      .map(([tag, column]) => `${tag}: ${column.values[column.of[item]]}`).join(" · ");

  const link = (section, item) => {
    const parts = new URLSearchParams();
    if (page.sections.length > 1) parts.set("benchmark", section.name);
    parts.set("item", section.items.ids[item]);
    return `#${parts}`;
  };

  const margin = (model, item) => `margin ${Number(model.margins[item].toPrecision(3))}`;

  const card = (section, model, item) => make("article", { class: "card", "data-item": section.items.ids[item] },
    make("h4", {}, make("a", { href: link(section, item) }, section.items.ids[item])),
    make("p", { class: "about" }, [tagLine(section, item), margin(model, item)].filter(Boolean).join(" · ")),
    matrix(section, model, item),
    verdicts(model, item, section.headline.length ? section.headline : Object.keys(model.outcomes)));

  // ---- a benchmark's browser

  class Browser {
    constructor(section) {
      this.section = section;
      this.root = document.getElementById(section.anchor);
      this.form = this.root.querySelector(".filters");
      this.model = section.models[0];
      this.shown = [];
      this.turn = 0;
      this.form.addEventListener("input", () => this.filter());
      this.form.addEventListener("reset", () => setTimeout(() => this.filter()));
      this.form.addEventListener("submit", (event) => event.preventDefault());
      for (const button of this.root.querySelectorAll("[data-turn]"))
        button.addEventListener("click", () => this.show(this.turn + Number(button.dataset.turn)));
    }

    choose(number) {
      const found = this.section.models.find((model) => model.model === number);
      if (found) this.model = found;
      this.filter();
    }

    get texts() {
      const { ids, texts } = this.section.items;
      this.lowered ??= ids.map((id, k) => [id, ...texts[k], tagLine(this.section, k)].join("\n").toLowerCase());
      return this.lowered;
    }

    tests() {
      const tests = [];
      for (const select of this.form.querySelectorAll("[data-tag]"))
        if (select.value !== "") {
          const of = this.section.items.tags[select.dataset.tag].of;
          tests.push((item) => of[item] === Number(select.value));
        }
      const field = (name) => this.form.elements.namedItem(name)?.value ?? "";
      const codes = this.model.outcomes[field("metric")] ?? "";
      const outcome = field("outcome");
      // A tie is not right: "wrong" shows tied items too.
      if (outcome === "wrong") tests.push((item) => codes[item] === OUTCOMES.wrong || codes[item] === OUTCOMES.tied);
      else if (outcome) tests.push((item) => codes[item] === OUTCOMES[outcome]);
      if (field("rival") !== "") {
        const other = this.section.models[Number(field("rival"))].outcomes[field("metric")] ?? "";
        tests.push((item) => (codes[item] === "1") !== (other[item] === "1"));
      }
      const wanted = field("text").trim().toLowerCase();
      if (wanted) tests.push((item) => this.texts[item].includes(wanted));
      return tests;
    }

    filter() {
      const tests = this.tests();
      const total = this.section.items.ids.length;
      this.shown = [];
      for (let item = 0; item < total; item++) if (tests.every((test) => test(item))) this.shown.push(item);
      const { margins } = this.model;
      const sort = this.form.elements.namedItem("sort").value;
      if (sort === "worst") this.shown.sort((a, b) => margins[a] - margins[b] || a - b);
      if (sort === "best") this.shown.sort((a, b) => margins[b] - margins[a] || a - b);
      const count = `${this.shown.length.toLocaleString("en")} of ${total.toLocaleString("en")} items`;
      this.root.querySelector(".count").textContent = `${count}, scored by ${page.models[this.model.model]}`;
      this.show(0);
    }

    show(turn) {
      const pages = Math.max(1, Math.ceil(this.shown.length / PAGE_SIZE));
      this.turn = Math.min(Math.max(turn, 0), pages - 1);
      const start = this.turn * PAGE_SIZE;
      const cards = this.shown.slice(start, start + PAGE_SIZE).map((item) => card(this.section, this.model, item));
      this.root.querySelector(".cards").replaceChildren(...cards);
      this.root.querySelector(".page").textContent = `page ${this.turn + 1} of ${pages}`;
      this.root.querySelector("[data-turn='-1']").disabled = this.turn === 0;
      this.root.querySelector("[data-turn='1']").disabled = this.turn === pages - 1;
    }
  }

  const browsers = page.sections.map((section) => new Browser(section));

  // ---- one item, every model

  let open = null;

  const fill = (browser, item) => {
    const { section } = browser;
    open = { browser, item };
    document.getElementById("item-title").textContent = `${section.name}: ${section.items.ids[item]}`;
    const first = browser.model;
    const others = section.models.filter((model) => model !== first);
    const parts = [make("p", { class: "about" }, tagLine(section, item))];
    for (const model of [first, ...others]) {
      const about = make("span", { class: "interval" }, `  ${model.kind}, ${margin(model, item)}`);
      parts.push(
        make("h3", {}, page.models[model.model], about),
        matrix(section, model, item),
        verdicts(model, item, Object.keys(model.outcomes)));
    }
    dialog.querySelector(".body").replaceChildren(...parts);
    const place = browser.shown.indexOf(item);
    dialog.querySelector("[data-step='-1']").disabled = place <= 0;
    dialog.querySelector("[data-step='1']").disabled = place < 0 || place === browser.shown.length - 1;
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  };

  const walk = (step) => {
    const place = open.browser.shown.indexOf(open.item);
    const next = place < 0 ? undefined : open.browser.shown[place + step];
    if (next !== undefined) location.hash = link(open.browser.section, next);
  };

  const follow = () => {
    const parts = new URLSearchParams(location.hash.slice(1));
    const id = parts.get("item");
    if (id === null) {
      if (dialog.open) dialog.close();
      return;
    }
    const named = parts.get("benchmark");
    for (const browser of browsers) {
      const item = browser.section.items.ids.indexOf(id);
      if (item >= 0 && (named === null || named === browser.section.name)) return void fill(browser, item);
    }
    const note = make("p", { class: "missing", role: "alert" }, `This report has no item ${id}.`);
    document.querySelector(".missing")?.remove();
    document.querySelector("main").prepend(note);
  };

  dialog.addEventListener("close", () => {
    if (new URLSearchParams(location.hash.slice(1)).has("item"))
      history.replaceState(null, "", location.href.split("#")[0]);
  });
  dialog.querySelector(".close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  for (const button of dialog.querySelectorAll("[data-step]"))
    button.addEventListener("click", () => walk(Number(button.dataset.step)));
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") walk(-1);
    if (event.key === "ArrowRight") walk(1);
  });

  // ---- the model on show

  const choose = (number) => {
    for (const part of document.querySelectorAll("[data-model]")) part.hidden = Number(part.dataset.model) !== number;
    for (const name of ["row", "curve", "legend"])
      for (const part of document.querySelectorAll(`[data-${name}]`)) {
        const current = Number(part.dataset[name]) === number;
        part.classList.toggle("current", current && page.models.length > 1);
        part.classList.toggle("faded", !current && name === "curve");
      }
    for (const browser of browsers) browser.choose(number);
  };

  const select = document.getElementById("model");
  select?.addEventListener("input", () => choose(Number(select.value)));
  document.documentElement.classList.add("scripted");
  choose(Number(select?.value ?? 0));
  window.addEventListener("hashchange", follow);
  follow();

  // While further checkpoints are awaited the page comes again by itself, unless somebody is at work in it.
  const REST = 30_000;
  let touched = -REST;
  if (page.reload) {
    for (const kind of ["pointerdown", "keydown", "wheel"])
      window.addEventListener(kind, () => { touched = performance.now(); }, { passive: true });
    setInterval(() => {
      if (!dialog.open && performance.now() - touched > REST) location.reload();
    }, 1000 * page.reload);
  }
})();
