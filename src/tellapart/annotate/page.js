"use strict";
(() => {
  // Every text that comes from data passes through here as a text node: nothing is ever parsed as HTML.
  const make = (name, properties = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
      if (typeof value === "function") node.addEventListener(key, value);
      else if (value === true) node.setAttribute(key, "");
      else if (value !== false) node.setAttribute(key, value);
    }
    node.append(...children);
    return node;
  };
  const at = (id) => document.getElementById(id);
  const survey = JSON.parse(at("survey-data").textContent);
  const { tasks, fields } = survey;
  const SIDES = ["left", "top", "width", "height"];
  const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const FORMAT = 1;
  const KEY = `tellapart survey ${survey.study} ${survey.annotator}`;
  const known = new Set(tasks.map((task) => task.id));
  document.documentElement.classList.add("scripted");

  // ---- answers: task -> {values, skipped}; kept in the browser, saved to a file

  let answers = {};
  let position = 0; // of the task that is shown; after the last one comes the end
  let kept = true; // whether the browser keeps them
  let saved = true; // whether the file has them
  const say = (text) => (at("said").textContent = text);
  const own = (task) => (answers[task.id] ??= { values: {}, skipped: false });
  const blank = (value) => value === undefined || (typeof value === "string" && !value.trim());
  const filled = ({ values }) => fields.every((field) => !field.required || !blank(values[field.name]));
  const decided = ({ id }) => Boolean(answers[id]) && (answers[id].skipped || filled(answers[id]));
  const open = () => tasks.filter((task) => !decided(task));

  const keep = () => {
    try {
      localStorage.setItem(KEY, JSON.stringify({ position, answers }));
    } catch {
      kept = false;
      say("This browser keeps no answers: save them to a file before you close the page.");
    }
  };
  const restore = () => {
    try {
      const before = JSON.parse(localStorage.getItem(KEY) ?? "null");
      if (!before) return;
      const rows = Object.entries(before.answers).filter(([task, answer]) => known.has(task) && answer.values);
      answers = Object.fromEntries(rows);
      position = Math.min(Math.max(0, Math.trunc(before.position) || 0), tasks.length);
    } catch {
      kept = false;
    }
  };
  const change = (task, name, value) => {
    const answer = own(task);
    answer.skipped = false;
    if (blank(value)) delete answer.values[name];
    else answer.values[name] = value;
    saved = false;
    keep();
    count();
  };

  const save = () => {
    const rows = tasks.filter(decided).map(({ id }) => {
      const { values, skipped } = answers[id];
      return skipped ? { task: id, skipped } : { task: id, values };
    });
    const file = { tellapart_answers: FORMAT, study: survey.study, annotator: survey.annotator, answers: rows };
    const blob = new Blob([`${JSON.stringify(file, null, 1)}\n`], { type: "application/json" });
    const address = URL.createObjectURL(blob);
    const name = `${survey.annotator}.answers.json`;
    make("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
    saved = true;
    const left = open().length;
    const rest = left ? `; ${left} still open.` : ". Thank you: please send it back.";
    say(`${name} has ${rows.length} of ${tasks.length} answers${rest}`);
  };
  const load = async (file) => {
    try {
      const read = JSON.parse(await file.text());
      if (read.tellapart_answers !== FORMAT || read.study !== survey.study || read.annotator !== survey.annotator)
        return say(`${file.name} holds no answers to this page's survey for ${survey.annotator}.`);
      for (const { task, values = {}, skipped = false } of read.answers)
        if (known.has(task)) answers[task] = { values, skipped };
      keep();
      show(position);
      say(`${file.name}: ${read.answers.length} answers are here now.`);
    } catch {
      say(`${file.name} is no file of answers.`);
    }
  };

  // ---- the task that is shown

  const picture = (index, words) => {
    const [address, width, height] = survey.pictures[index];
    const image = make("img", { src: address, alt: words, draggable: "false" });
    image.pixels = () => [width || image.naturalWidth, height || image.naturalHeight];
    image.addEventListener("load", () => image.style.setProperty("--ratio", image.naturalWidth / image.naturalHeight));
    return image;
  };
  const select = (name, value) => {
    const input = document.querySelector(`input[name="${CSS.escape(name)}"][value="${CSS.escape(value)}"]`);
    if (!input) return;
    input.checked = true;
    change(tasks[position], name, value);
  };

  const choiceOf = (task, field) => {
    const options = field.options ? task.options : [];
    const pictured = survey.pictured && options.length > 0;
    const lettered = options.map((option, k) => [LETTERS[k], option]);
    const rows = [...lettered, ...field.choices.map((choice) => [choice, null])];
    const labels = rows.map(([value, option], k) => {
      const input = make("input", { type: "radio", name: field.name, value, change: () => select(field.name, value) });
      input.checked = answers[task.id]?.values[field.name] === value;
      const label = make("label", { class: "option" }, input, make("b", {}, value));
      if (typeof option === "number") label.append(picture(option, `image ${value}`));
      else if (option) label.append(make("span", { class: "text" }, option));
      if (k < 9) label.append(make("kbd", { "aria-hidden": "true" }, String(k + 1)));
      return label;
    });
    const groups = [labels.slice(0, options.length), labels.slice(options.length)].filter((group) => group.length);
    const rowsOf = (group, k) => make("div", { class: pictured && k === 0 ? "options pictured" : "options" }, ...group);
    return make("fieldset", {}, make("legend", {}, field.label), ...groups.map(rowsOf));
  };

  const textOf = (task, field) => {
    const area = make("textarea", { id: `field-${field.name}`, rows: "2", "aria-required": String(field.required) });
    area.value = answers[task.id]?.values[field.name] ?? "";
    area.addEventListener("input", () => change(task, field.name, area.value));
    const label = field.label + (field.required ? "" : " (may be left out)");
    return make("div", {}, make("label", { class: "asked", for: area.id }, label), area);
  };

  // A box is drawn with the mouse on the first image, or written as numbers.
  const boxOf = (task, field, figure) => {
    const image = figure.querySelector("img");
    const rectangle = make("div", { class: "rectangle" });
    figure.classList.add("drawn");
    figure.append(rectangle);
    const sides = SIDES.map((name, k) => {
      const input = make("input", { type: "number", min: k < 2 ? "0" : "1", id: `field-${field.name}-${name}` });
      input.addEventListener("input", () => set(sides.map(({ value }) => (value === "" ? NaN : Number(value))), false));
      return input;
    });
    const draw = (box) => {
      rectangle.hidden = !box;
      if (!box) return;
      const whole = image.pixels();
      SIDES.forEach((name, k) => (rectangle.style[name] = `${(100 * box[k]) / whole[k % 2]}%`));
    };
    const set = (box, fill = true) => {
      const [width, height] = image.pixels();
      const whole = box?.every(Number.isFinite);
      const inside = whole && box[0] >= 0 && box[1] >= 0 && box[0] + box[2] <= width && box[1] + box[3] <= height;
      const valid = inside && box[2] > 0 && box[3] > 0;
      if (fill) sides.forEach((side, k) => (side.value = valid ? box[k] : ""));
      const outside = !fill && whole && !valid;
      say(outside ? `The box must lie inside the image, which has ${width} × ${height} pixels.` : "");
      change(task, field.name, valid ? box : undefined);
      draw(valid ? box : null);
    };
    const point = (event) => {
      const frame = image.getBoundingClientRect();
      const shares = [(event.clientX - frame.left) / frame.width, (event.clientY - frame.top) / frame.height];
      return image.pixels().map((length, k) => Math.round(Math.min(1, Math.max(0, shares[k])) * length));
    };
    let start = null;
    const spanned = (event) => {
      const [[x, y], [x2, y2]] = [start, point(event)];
      return [Math.min(x, x2), Math.min(y, y2), Math.abs(x - x2), Math.abs(y - y2)];
    };
    image.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      image.setPointerCapture(event.pointerId);
      start = point(event);
    });
    image.addEventListener("pointermove", (event) => start && draw(spanned(event)));
    image.addEventListener("pointerup", (event) => {
      if (start) set(spanned(event));
      start = null;
    });
    const before = answers[task.id]?.values[field.name];
    if (before) sides.forEach((side, k) => (side.value = before[k]));
    image.decode().then(() => draw(before), () => draw(null));
    const labels = sides.map((side, k) => make("label", {}, SIDES[k], side));
    const clear = make("button", { type: "button", click: () => set(undefined) }, "Clear the box");
    const hint = field.required ? "" : " (may be left out)";
    const legend = `A box around ${field.label}${hint}: draw it on the image, or write it in pixels`;
    return make("fieldset", {}, make("legend", {}, legend), make("div", { class: "sides" }, ...labels, clear));
  };

  const taskView = (task) => {
    const figure = (index, words, ...children) =>
      make("figure", { class: "picture" }, ...children, picture(index, words));
    const alone = task.images.length === 1;
    const figures = task.images.map((index, k) => figure(index, alone ? "the image" : `image ${k + 1}`));
    // Options that no choice shows, but texts are written about.
    const shown = fields.some((field) => field.options) ? [] : task.options;
    const subjects = shown.map((option, k) => {
      const letter = make("figcaption", {}, LETTERS[k]);
      if (typeof option === "number") return figure(option, `image ${LETTERS[k]}`, letter);
      return make("figure", { class: "quote" }, letter, option);
    });
    const form = make("form", { novalidate: true, submit: (event) => { event.preventDefault(); move(1); } });
    for (const field of fields) {
      if (field.control === "choice") form.append(choiceOf(task, field));
      else if (field.control === "box") form.append(boxOf(task, field, figures[0]));
      else form.append(textOf(task, field));
    }
    form.append(make("div", { class: "turn" },
      make("button", { type: "button", click: () => move(-1), disabled: position === 0 }, "Back"),
      make("button", { type: "submit", class: "main" }, "Next"),
      make("button", { type: "button", click: skip }, "Skip this task")));
    const skipped = answers[task.id]?.skipped ? " (skipped)" : "";
    const quotes = task.texts.map((text) => make("p", { class: "quote" }, text));
    const left = make("div", {}, make("div", { class: "pictures" }, ...figures, ...subjects), ...quotes);
    const beside = alone && !(survey.pictured && task.options.length);
    return [
      make("h2", { tabindex: "-1" }, `Task ${position + 1} of ${tasks.length}${skipped}`),
      make("div", { class: beside ? "shown beside" : "shown" }, left, form),
    ];
  };

  const endView = () => {
    const left = open();
    const buttons = left.map((task) => {
      const index = tasks.indexOf(task);
      return make("li", {}, make("button", { type: "button", click: () => show(index) }, `Task ${index + 1}`));
    });
    const words = left.length
      ? `Still open, of ${tasks.length} tasks:`
      : `All ${tasks.length} tasks are answered. Save the answers to a file, and send it back.`;
    return [
      make("h2", { tabindex: "-1" }, left.length ? "Not quite done" : "Done"),
      make("p", {}, words),
      make("ul", { class: "open-tasks" }, ...buttons),
      make("div", { class: "turn" },
        make("button", { type: "button", click: () => move(-1) }, "Back"),
        make("button", { type: "button", class: "main", click: save }, "Save answers to a file")),
    ];
  };

  const count = () => {
    const done = tasks.length - open().length;
    at("bar").max = tasks.length;
    at("bar").value = done;
    at("count").textContent = `${done} of ${tasks.length} answered`;
    tasks.forEach((task, k) => (at("jump").options[k].textContent = `${k + 1}${decided(task) ? " ✓" : ""}`));
  };
  const show = (index) => {
    position = Math.min(Math.max(0, index), tasks.length);
    at("task").replaceChildren(...(position < tasks.length ? taskView(tasks[position]) : endView()));
    at("jump").selectedIndex = position;
    say("");
    keep();
    count();
    // On a phone the focus would open the keyboard over the pictures.
    const writes = fields[0].control === "text" && matchMedia("(min-width: 820px)").matches;
    ((writes && at("task").querySelector("textarea")) || at("task").querySelector("h2")).focus();
  };
  const move = (by) => show(position + by);
  const skip = () => {
    own(tasks[position]).skipped = true;
    saved = false;
    move(1);
  };

  // ---- keys

  const choice = fields.find((field) => field.control === "choice");
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
    const element = event.target;
    if (element.tagName === "TEXTAREA") {
      if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        move(1);
      }
      return;
    }
    if (["BUTTON", "A", "SUMMARY"].includes(element.tagName) && event.key === "Enter") return;
    if (element.tagName === "SELECT" || (element.tagName === "INPUT" && element.type !== "radio")) return;
    const radio = element.tagName === "INPUT"; // its arrows choose
    if (event.key === "Enter" || (event.key === "ArrowRight" && !radio)) {
      event.preventDefault();
      if (position < tasks.length) move(1);
    } else if (event.key === "ArrowLeft" && !radio) {
      event.preventDefault();
      move(-1);
    } else if (position < tasks.length) {
      const task = tasks[position];
      const options = choice?.options ? task.options.map((_, k) => LETTERS[k]) : [];
      const values = choice ? [...options, ...choice.choices] : [];
      const letter = event.key.toUpperCase();
      if (options.includes(letter)) select(choice.name, letter);
      else if (/^[1-9]$/.test(event.key) && event.key <= values.length) select(choice.name, values[event.key - 1]);
      else if (letter === "S") skip();
    }
  });

  at("jump").append(...tasks.map((_, k) => make("option", {}, String(k + 1))), make("option", {}, "end"));
  at("jump").addEventListener("change", () => show(at("jump").selectedIndex));
  at("save").addEventListener("click", save);
  at("open").addEventListener("change", () => at("open").files[0] && load(at("open").files[0]));
  addEventListener("beforeunload", (event) => { if (!kept && !saved) event.preventDefault(); });
  restore();
  show(position);
})();
