// Draws a sentence: words on a line, flat arcs above them, as `spacy spectral draw` does.
const NS = "http://www.w3.org/2000/svg";
const LEVEL = 26, GAP = 14, CORNER = 10, ROOT_SPACE = 26;
const DOUBTFUL = 0.9, UNLIKELY = 0.5;
const pen = document.createElement("canvas").getContext("2d");

export function node(name, attributes = {}, ...children) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function width(text, size) {
  pen.font = `${size}px Helvetica, Arial, sans-serif`;
  return pen.measureText(text).width;
}

export function percent(p) {
  if (p > 0 && p < 0.005) return "<.01";
  const text = p.toFixed(2);
  return text === "1.00" ? "1" : text.replace(/^0/, "");
}

export function certainty(word) {
  if (word.fixed) return "pinned";
  const p = word.p * word.q;
  return p < UNLIKELY ? "unlikely" : p < DOUBTFUL ? "doubtful" : "sure";
}

function isRightToLeft(words) {
  const text = words.map((w) => w.form).join(" ");
  const right = (text.match(/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/g) || []).length;
  return right > (text.match(/\p{L}/gu) || []).length / 2;
}

// Arcs one above the other where they overlap: short ones are lowest.
function levels(arcs) {
  const top = [];
  for (const arc of [...arcs].sort((a, b) => a.to - a.from - (b.to - b.from))) {
    let level = 0;
    for (let i = arc.from; i < arc.to; i++) level = Math.max(level, top[i] || 0);
    arc.level = level + 1;
    for (let i = arc.from; i < arc.to; i++) top[i] = arc.level;
  }
  return Math.max(0, ...arcs.map((arc) => arc.level));
}

// Where words are, and how high arcs go.
export function layout(words) {
  const arcs = [];
  words.forEach((word, i) => {
    const head = word.head === "_" ? -1 : Number(word.head) - 1;
    if (head >= 0) arcs.push({ child: i, head, from: Math.min(i, head), to: Math.max(i, head) });
  });
  const highest = levels(arcs);
  const label = (word) => `${word.deprel} ${percent(word.p * word.q)}`;
  const size = words.map((word, i) => Math.max(
    width(word.form, 16), width(word.upos, 11), width(word.xpos, 11), word.head === "0" ? width(label(word), 11.5) : 0, 24));
  let x = 12;
  const centres = [];
  words.forEach((word, i) => {
    let left = x + size[i] / 2;
    // a label between neighbours must fit
    for (const arc of arcs) {
      if (arc.to === i && arc.from === i - 1) left = Math.max(left, centres[i - 1] + width(label(words[arc.child]), 11.5) + 30);
    }
    centres.push(left);
    x = left + size[i] / 2 + GAP;
  });
  const total = x;
  const mirrored = isRightToLeft(words);
  return { arcs, size, total, mirrored, xs: centres.map((c) => (mirrored ? total - c : c)), base: ROOT_SPACE + 12 + (highest + 1) * LEVEL };
}

function path(x1, x2, y, top) {
  const corner = Math.min(CORNER, Math.abs(x2 - x1) / 2), inward = x2 > x1 ? corner : -corner;
  return `M${x1},${y} V${top + corner} Q${x1},${top} ${x1 + inward},${top} H${x2 - inward} Q${x2},${top} ${x2},${top + corner} V${y}`;
}

function labelled(word, x, y, i) {
  const text = node("text", { class: "label", x, y, dy: "0.35em", "text-anchor": "middle", "data-list": "deprel", "data-word": i + 1 }, `${word.deprel} `);
  const number = node("tspan", { class: "p" });
  number.textContent = word.fixed ? "●" : percent(word.p * word.q);
  text.append(number);
  return text;
}

export function draw(words, selected, problems) {
  const plan = layout(words), { xs, base, total } = plan;
  const height = base + 100;
  const svg = node("svg", { width: total, height, viewBox: `0 0 ${total} ${height}`, role: "img" });
  svg.append(node("line", { class: "rootline", x1: 0, x2: total, y1: 14, y2: 14 }));
  svg.append(node("text", { class: "root", x: plan.mirrored ? total - 4 : 4, y: 10, "text-anchor": plan.mirrored ? "end" : "start" }, "root"));
  const wrong = new Set(problems.map(([word]) => word));
  for (const arc of plan.arcs) {
    const word = words[arc.child], x2 = xs[arc.child], top = base - arc.level * LEVEL - 4;
    const x1 = xs[arc.head] + (x2 > xs[arc.head] ? 6 : -6);
    const group = node("g", { class: `arc ${certainty(word)}${arc.child === selected ? " on" : ""}`, "data-child": arc.child + 1, "data-head": arc.head + 1 });
    if (!word.fixed) group.setAttribute("opacity", 0.45 + 0.55 * word.p * word.q > 0.72 ? 1 : 0.85);
    group.append(node("path", { d: path(x1, x2, base, top) }), node("path", { class: "tip", d: `M${x2},${base + 2} l-4.5,-8 h9 Z` }), labelled(word, (x1 + x2) / 2, top, arc.child));
    svg.append(group);
  }
  words.forEach((word, i) => {
    if (word.head !== "0") return;
    const group = node("g", { class: `arc ${certainty(word)}${i === selected ? " on" : ""}`, "data-child": i + 1, "data-head": 0 });
    group.append(node("path", { d: `M${xs[i]},14 V${base}` }), node("path", { class: "tip", d: `M${xs[i]},${base + 2} l-4.5,-8 h9 Z` }), labelled(word, xs[i], ROOT_SPACE + 2, i));
    svg.append(group);
  });
  // arcs to other likely heads, of the word at hand
  const other = words[selected]?.others?.[0];
  if (other && !words[selected].fixed) svg.append(alternative(plan, words, selected, other));
  words.forEach((word, i) => {
    const w = Math.max(plan.size[i] + 8, 28);
    const classes = `w${i === selected ? " on" : ""}${wrong.has(i + 1) ? " wrong" : ""}`;
    const group = node("g", { class: classes, "data-word": i + 1 });
    group.append(node("rect", { x: xs[i] - w / 2, y: base + 4, width: w, height: 24, rx: 5 }),
      node("text", { class: "form", x: xs[i], y: base + 22, "text-anchor": "middle" }, word.form));
    svg.append(group);
    for (const [line, name] of [[40, "upos"], [54, "xpos"]]) {
      svg.append(node("text", { class: "tag", x: xs[i], y: base + line, "text-anchor": "middle", "data-list": name, "data-word": i + 1 }, word[name]));
    }
    svg.append(node("text", { class: "number", x: xs[i], y: base + 69, "text-anchor": "middle" }, String(i + 1)));
  });
  return { svg, plan };
}

// Another likely head, below the words, where no arc is.
export function alternative({ xs, base }, words, i, [head, prob]) {
  const group = node("g", { class: "other" }), y = base + 74, low = y + 10;
  if (head === 0) {
    group.append(node("text", { x: xs[i], y: low + 6, "text-anchor": "middle" }, `root ${percent(prob)}`));
  } else {
    const x1 = xs[head - 1], x2 = xs[i];
    group.append(node("path", { d: `M${x1},${y} V${low} H${x2} V${y}` }), node("path", { class: "tip", d: `M${x2},${y - 4} l-4,7 h8 Z` }),
      node("text", { x: (x1 + x2) / 2, y: low + 13, "text-anchor": "middle" }, percent(prob)));
  }
  return group;
}
