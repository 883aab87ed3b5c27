// The annotation page: keys, dragging and lists become requests; every answer has all that is shown.
import { alternative, certainty, draw, node, percent } from "./draw.js";

const $ = (id) => document.getElementById(id);
const FIELDS = { l: "deprel", u: "upos", x: "xpos", m: "lemma", f: "feats" };
const NAMES = { deprel: "label", upos: "UPOS", xpos: "XPOS", lemma: "lemma", feats: "features" };
let state = null, selected = 0, aiming = null, typed = "", plan = null, drag = null, queue = Promise.resolve();
const visited = [];

async function ask(address, body) {
  const options = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  let answer;
  try { answer = await fetch(address, options); } catch { throw new Error("The server does not answer. What was accepted is on disk; start the command again."); }
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

// One request after the other, so that quick keys arrive in order.
function later(work) {
  queue = queue.then(work).catch((error) => { $("message").textContent = error.message; });
  return queue;
}

function show(found, keep) {
  const before = state?.sentence?.id, id = found.sentence?.id;
  state = found;
  aiming = null; typed = "";
  if (before !== id) {
    if (before !== undefined && !keep) visited.push(before);
    selected = found.sentence ? Math.max(0, found.sentence.words.findIndex((w) => certainty(w) !== "sure" && !w.fixed)) : 0;
  }
  if (found.sentence) {
    selected = Math.min(selected, found.sentence.words.length - 1);
    history.replaceState(null, "", `#${id}`);
  }
  $("message").textContent = "";
  render();
}

function render() {
  const own = state.sentence;
  $("order").value = state.order;
  showPanel(state);
  document.querySelector('[data-key="z"]').disabled = !state.undo;
  document.querySelector('[data-key="y"]').disabled = !state.redo;
  $("scroll").replaceChildren();
  if (!own) {
    $("place").textContent = "All sentences are accepted.";
    for (const name of ["text", "note", "fixes"]) $(name).textContent = "";
    $("word").replaceChildren(); $("problems").replaceChildren();
    return;
  }
  $("place").textContent = `${own.place + 1} of ${state.total}${own.sent_id ? ` · ${own.sent_id}` : ""} · ${own.status}`;
  $("text").textContent = own.text;
  $("note").textContent = own.note;
  $("fixes").textContent = `${own.fixes} correction${own.fixes === 1 ? "" : "s"} · parsed by ${own.model}`;
  $("problems").replaceChildren(...own.problems.map(([word, message]) => {
    const item = document.createElement("li");
    item.textContent = word ? `${word} ${own.words[word - 1].form}: ${message}` : message;
    return item;
  }));
  const drawn = draw(own.words, selected, own.problems);
  plan = drawn.plan;
  $("scroll").append(drawn.svg);
  mark();
  showWord();
  const box = $("scroll"), x = plan.xs[selected];
  if (x < box.scrollLeft + 40 || x > box.scrollLeft + box.clientWidth - 40) box.scrollLeft = x - box.clientWidth / 2;
}

function showPanel(found) {
  const p = found.panel, rows = [
    ["accepted", p.accepted], ["left", p.left], ["skipped", p.skipped],
    ["corrections per sentence", p.fixes ?? "–"],
    [`heads right (last ${p.judged})`, p.uas === null ? "–" : `${p.uas} %`],
    [`labels, too`, p.las === null ? "–" : `${p.las} %`],
  ];
  const list = rows.flatMap(([name, value]) => {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name; dd.textContent = value;
    return [dt, dd];
  });
  const model = document.createElement("dd");
  model.className = "wide"; model.id = "model";
  model.textContent = [p.model || "no model yet", p.learning].filter(Boolean).join(" · ");
  $("panel").replaceChildren(...list, model);
  $("bar").firstElementChild.style.width = `${(100 * p.accepted) / Math.max(found.total, 1)}%`;
}

function showWord() {
  const word = state.sentence.words[selected], box = $("word");
  const name = document.createElement("b");
  name.textContent = `${selected + 1} ${word.form}`;
  const head = word.head === "_" ? "–" : word.head === "0" ? "root" : `${word.head} ${state.sentence.words[word.head - 1].form}`;
  const parts = [["head", head, "h"], ["label", word.deprel, "l"], ["UPOS", word.upos, "u"], ["XPOS", word.xpos, "x"], ["lemma", word.lemma, "m"], ["features", word.feats, "f"]];
  const buttons = parts.map(([what, value, key]) => {
    const button = document.createElement("button"), small = document.createElement("small");
    small.textContent = `${what} `;
    button.append(small, value);
    button.dataset.key = key;
    return button;
  });
  const others = document.createElement("small");
  others.textContent = word.others.map(([h, p]) => `${h === 0 ? "root" : state.sentence.words[h - 1].form} ${percent(p)}`).join(", ");
  if (others.textContent) others.textContent = `or: ${others.textContent}`;
  box.replaceChildren(name, ...buttons, others);
}

function mark() {
  for (const own of document.querySelectorAll("svg .w")) own.classList.toggle("target", aiming !== null && Number(own.dataset.word) === aiming);
  document.querySelector("svg .rootline")?.classList.toggle("target", aiming === 0);
}

function select(i) {
  selected = Math.max(0, Math.min(i, state.sentence.words.length - 1));
  aiming = null; typed = "";
  render();
}

const act = (what) => later(async () => show(await ask("api/act", { sentence: state.sentence?.id, ...what })));
const go = (id, step = 0, keep = false) => later(async () => show(await ask(`api/view${id === null ? "" : `?sentence=${id}&step=${step}`}`), keep));
const setHead = (word, head) => (word === head ? undefined : act({ do: "head", word, head }));

// ---- lists

function open(title, items, chosen, free) {
  const box = $("list"), heading = document.createElement("h2"), input = document.createElement("input"), list = document.createElement("ul");
  heading.textContent = title;
  input.setAttribute("aria-label", title);
  input.autocomplete = "off";
  let at = 0, shown = [];
  const fill = () => {
    const wanted = input.value.toLowerCase();
    shown = items.filter((item) => !wanted || item.text.toLowerCase().includes(wanted));
    shown.sort((a, b) => (wanted ? Number(b.text.toLowerCase().startsWith(wanted)) - Number(a.text.toLowerCase().startsWith(wanted)) : 0));
    if (free && input.value && !items.some((item) => item.text === input.value)) shown.push({ text: input.value, more: "as typed", value: input.value });
    at = Math.min(at, Math.max(shown.length - 1, 0));
    list.replaceChildren(...shown.map((item, i) => {
      const row = document.createElement("li"), small = document.createElement("small");
      small.textContent = item.more ?? "";
      row.append(i < 9 && !wanted ? `${i + 1}  ${item.text}` : item.text, small);
      row.classList.toggle("on", i === at);
      row.addEventListener("click", () => take(item));
      return row;
    }));
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  const take = (item) => { if (item) { box.close(); chosen(item.value); } };
  input.addEventListener("input", () => { at = 0; fill(); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") at = (at + (event.key === "ArrowDown" ? 1 : -1) + shown.length) % Math.max(shown.length, 1);
    else if (event.key === "Enter") { event.preventDefault(); take(shown[at]); return; }
    else if (!free && /^[1-9]$/.test(event.key) && !input.value && shown[event.key - 1]) { event.preventDefault(); take(shown[event.key - 1]); return; }
    else return;
    event.preventDefault();
    fill();
  });
  box.replaceChildren(heading, input, list);
  fill();
  box.showModal();
  input.focus();
}

const openChoices = (name, word) => later(async () => {
  const found = await ask(`api/choices?sentence=${state.sentence.id}&word=${word}`);
  const isRoot = state.sentence.words[word - 1].head === "0";
  const own = found[name].filter(([value]) => name !== "deprel" || (value === "root") === isRoot);
  const items = own.map(([value, p]) => ({ text: value, value, more: p > 0 ? percent(p) : "" }));
  open(`${NAMES[name]} of “${state.sentence.words[word - 1].form}”`, items, (value) => act(name === "deprel" ? { do: "label", word, value } : { do: "value", word, name, value }), name === "lemma" || name === "feats" || name === "xpos" || name === "deprel");
});

const openTrees = () => later(async () => {
  const found = await ask(`api/trees?sentence=${state.sentence.id}`), words = state.sentence.words;
  const items = found.map((tree, i) => {
    const different = words.map((w, j) => [w, tree.heads[j], tree.labels[j]]).filter(([w, h, l]) => Number(w.head) !== h || w.deprel !== l);
    const text = different.map(([w, h, l]) => `${w.form} ← ${h === 0 ? "root" : words[h - 1].form} (${l})`).join("; ");
    return { text: text || "as shown", more: percent(Math.exp(tree.logprob)), value: i };
  });
  open("n best parses: what differs", items, (number) => act({ do: "tree", number }), false);
});

function openText(title, value, chosen) {
  open(title, [], chosen, true);
  const input = $("list").querySelector("input");
  input.value = value;
  input.dispatchEvent(new Event("input"));
}

function openSearch() {
  open("Search", [], () => undefined, false);
  const box = $("list"), input = box.querySelector("input"), list = box.querySelector("ul");
  let timer = 0, found = [];
  const look = async () => {
    found = input.value ? await ask(`api/search?q=${encodeURIComponent(input.value)}`) : [];
    list.replaceChildren(...found.map((item) => {
      const row = document.createElement("li"), small = document.createElement("small");
      small.textContent = `${item.place + 1} ${item.status}`;
      row.append(item.text, small);
      row.addEventListener("click", () => { box.close(); go(item.id); });
      return row;
    }));
  };
  input.addEventListener("input", (event) => { event.stopImmediatePropagation(); clearTimeout(timer); timer = setTimeout(look, 150); }, true);
  input.addEventListener("keydown", async (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); event.stopImmediatePropagation();
    clearTimeout(timer);
    await look();
    if (found.length) { box.close(); go(found[0].id); }
  }, true);
}

// ---- keys

function press(key, shift = false) {
  if (key === "?") { $("help").showModal(); return true; }
  if (key === "z") { if (state.undo) act({ do: "undo", sentence: state.sentence?.id ?? visited.at(-1) }); return true; }
  if (key === "/") { openSearch(); return true; }
  if (key === "P") { if (visited.length) go(visited.pop(), 0, true); return true; }
  const own = state.sentence;
  if (!own) return false;
  const word = selected + 1, now = own.words[selected], left = plan.mirrored ? 1 : -1;
  if (aiming !== null) {
    if (key === "ArrowLeft" || key === "ArrowRight") {
      aiming = Math.max(0, Math.min(aiming + (key === "ArrowLeft" ? left : -left), own.words.length));
    } else if (/^[0-9]$/.test(key)) {
      typed += key;
      if (Number(typed) <= own.words.length) aiming = Number(typed);
    } else if (key === "Enter") { const head = aiming; aiming = null; setHead(word, head); }
    else if (key === "Escape" || key === "h") aiming = null;
    else return false;
    mark();
    return true;
  }
  if (FIELDS[key]) { openChoices(FIELDS[key], word); return true; }
  const keys = {
    ArrowLeft: () => select(selected + left), ArrowRight: () => select(selected - left),
    ArrowUp: () => { if (Number(now.head) > 0) select(Number(now.head) - 1); },
    Home: () => select(0), End: () => select(own.words.length - 1),
    Tab: () => {
      const n = own.words.length, step = shift ? n - 1 : 1;
      for (let i = 1, at = selected; i <= n; i++) {
        at = (at + step) % n;
        if (!["sure", "pinned"].includes(certainty(own.words[at]))) { select(at); return; }
      }
    },
    h: () => { aiming = now.head === "_" ? word : Number(now.head); typed = ""; mark(); },
    r: () => setHead(word, 0),
    2: () => { if (now.others.length) setHead(word, now.others[0][0]); },
    " ": () => { if (now.head !== "_" && now.deprel !== "_") act({ do: "label", word, value: now.deprel }); },
    Delete: () => act(shift ? { do: "release" } : { do: "release", word }),
    a: () => act({ do: "accept" }), s: () => act({ do: "skip" }), y: () => { if (state.redo) act({ do: "redo" }); },
    b: openTrees, p: () => go(own.id, -1), n: () => go(own.id, 1), g: () => go(null),
    c: () => openText("Comment", own.note, (value) => act({ do: "note", value })),
    t: () => openText(`Cut “${now.form}”: put a space where`, now.form, (value) => { const at = value.indexOf(" "); if (at > 0) act({ do: "split_token", word, at: [...value.slice(0, at)].length }); }),
    j: () => act({ do: "join_tokens", word }),
    S: () => act({ do: "split_sentence", word }), J: () => act({ do: "join_sentences" }),
  };
  if (!Object.hasOwn(keys, key)) return false;
  keys[key]();
  return true;
}

document.addEventListener("keydown", (event) => {
  // the input of a list that was closed has the focus until the page is drawn again: its keys are meant for the page
  if (!state || event.altKey || event.defaultPrevented || document.querySelector("dialog[open]") || event.target.matches("select")) return;
  if (event.target.matches("button") && ["Enter", " ", "Tab"].includes(event.key)) return;
  let key = event.key;
  if (event.ctrlKey || event.metaKey) {
    if (key === "Enter") key = "a";
    else if (key === "z") key = event.shiftKey ? "y" : "z";
    else if (key !== "y") return;
  }
  // leaving the drawing by Tab where no arc is doubtful
  if (key === "Tab" && state.sentence?.words.every((w) => ["sure", "pinned"].includes(certainty(w)))) return;
  if (press(key, event.shiftKey)) event.preventDefault();
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-key]"), list = event.target.closest("[data-list]");
  if (button) { press(button.dataset.key); if (button.closest("header, #act")) button.blur(); }
  else if (list) { select(Number(list.dataset.word) - 1); openChoices(list.dataset.list, Number(list.dataset.word)); }
  else if (event.target.matches("dialog")) event.target.close();
});
$("order").addEventListener("change", (event) => { act({ do: "order", value: event.target.value }); event.target.blur(); });

// ---- dragging a word to its head

function place(event) {
  const box = $("scroll").querySelector("svg").getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function aimedAt([x, y]) {
  if (y < 24) return 0;
  let best = null, distance = Infinity;
  plan.xs.forEach((own, i) => {
    const d = Math.abs(own - x);
    if (d < distance && d < Math.max(plan.size[i] / 2 + 10, 24)) { best = i + 1; distance = d; }
  });
  return best;
}

$("scroll").addEventListener("pointerdown", (event) => {
  const own = event.target.closest(".w");
  if (!own || event.button) return;
  event.preventDefault();
  $("scroll").focus({ preventScroll: true });
  drag = { word: Number(own.dataset.word), from: place(event), line: null };
  $("scroll").setPointerCapture(event.pointerId);
});
$("scroll").addEventListener("pointermove", (event) => {
  if (!drag) { hover(event); return; }
  const [x, y] = place(event), box = $("scroll");
  if (!drag.line && Math.hypot(x - drag.from[0], y - drag.from[1]) < 6) return;
  if (!drag.line) {
    drag.line = node("path", { class: "drag" });
    box.querySelector("svg").append(drag.line);
  }
  const edge = box.getBoundingClientRect();
  if (event.clientX > edge.right - 30) box.scrollLeft += 12;
  if (event.clientX < edge.left + 30) box.scrollLeft -= 12;
  drag.line.setAttribute("d", `M${plan.xs[drag.word - 1]},${plan.base + 6} L${x},${y}`);
  aiming = aimedAt([x, y]);
  mark();
});
function drop(event) {
  if (!drag) return;
  const { word, line } = drag, target = line && event.type === "pointerup" ? aimedAt(place(event)) : null;
  drag = null; aiming = null;
  line?.remove();
  mark();
  if (!line) select(word - 1);
  else if (target !== null && target !== word) { selected = word - 1; setHead(word, target); }
}
$("scroll").addEventListener("pointerup", drop);
$("scroll").addEventListener("pointercancel", drop);

// the second-best head, where the pointer is
function hover(event) {
  const own = event.target.closest?.(".w, .arc"), svg = $("scroll").querySelector("svg");
  svg?.querySelector(".other.hover")?.remove();
  if (!own || !state.sentence) return;
  const i = Number(own.dataset.word ?? own.dataset.child) - 1, other = state.sentence.words[i]?.others[0];
  if (!other) return;
  const shown = alternative(plan, state.sentence.words, i, other);
  shown.classList.add("hover");
  shown.style.pointerEvents = "none";
  svg.append(shown);
}

// what the learner does shows in the panel
setInterval(() => {
  if (document.hidden || !state || drag) return;
  const id = state.sentence?.id;
  ask(`api/view${id === undefined ? "" : `?sentence=${id}`}`).then((found) => { state.panel = found.panel; showPanel(found); }, () => undefined);
}, 4000);

const wanted = location.hash.slice(1);
later(async () => {
  try { show(await ask(`api/view${/^\d+$/.test(wanted) ? `?sentence=${wanted}` : ""}`)); }
  catch { show(await ask("api/view")); }
});
