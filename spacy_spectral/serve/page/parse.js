// The page of `spacy spectral serve`: a text goes to /parse, drawings and lists come back.
const form = document.querySelector("form"), told = document.getElementById("told"), found = document.getElementById("found");

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function percent(p) {
  if (p > 0 && p < 0.005) return "<.01";
  const text = p.toFixed(2);
  return text === "1.00" ? "1" : text.replace(/^0/, "");
}

// the server makes the markup, with all text escaped
function drawing(markup) {
  const made = element("div", { class: "scroll", tabindex: 0 });
  made.innerHTML = markup;
  return made;
}

function arc(words, head, dep) {
  return head === 0 ? "root" : `${dep} ← ${words[head - 1].text}`;
}

// what another tree has that the first one has not
function differences(words, first, other) {
  const parts = [];
  words.forEach((word, i) => {
    if (first.heads[i] !== other.heads[i] || first.deps[i] !== other.deps[i]) {
      parts.push(`${word.text}: ${arc(words, other.heads[i], other.deps[i])} (not ${arc(words, first.heads[i], first.deps[i])})`);
    }
  });
  return parts.join("; ");
}

function figure(sentence) {
  const words = sentence.tokens;
  const chance = sentence.logprob === null ? "" : `P(tree) = ${percent(Math.exp(sentence.logprob))}`;
  const made = element("figure", {}, element("figcaption", {}, element("span", { dir: "auto" }, sentence.text), element("span", { class: "soft" }, chance)));
  if (!sentence.drawing) made.append(element("p", { class: "soft" }, "This sentence is too long to be drawn."));
  else if (words.some((word) => word.head !== null)) made.append(drawing(sentence.drawing));
  const [first, ...others] = sentence.nbest || [];
  if (others.length) {
    const list = element("ol", { start: 2 });
    for (const other of others) {
      list.append(element("li", {}, element("b", {}, other.prob === null ? "" : percent(other.prob)), differences(words, first, other)));
    }
    made.append(element("h2", {}, `Alternatives (the best tree: ${first.prob === null ? "?" : percent(first.prob)})`), list);
  }
  for (const tree of sentence.constituents) {
    if (tree.drawing) made.append(element("h2", {}, "Constituents"), drawing(tree.drawing));
  }
  return made;
}

let last = 0;

async function parse() {
  const text = form.text.value.trim();
  if (!text) return;
  const own = ++last;
  told.className = "";
  told.textContent = "…";
  try {
    const answer = await fetch("parse", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ text, model: form.model.value, nbest: 5, draw: true }),
    });
    const value = await answer.json();
    if (own !== last) return;
    if (!answer.ok) throw new Error(value.error);
    found.replaceChildren(...value.sentences.map(figure));
    told.textContent = value.confidence === null ? "" : `about ${Math.round(100 * value.confidence)} % of the arcs are right`;
  } catch (error) {
    if (own !== last) return;
    told.className = "wrong";
    told.textContent = error.message;
  }
}

form.addEventListener("submit", (event) => { event.preventDefault(); parse(); });
form.text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); parse(); }
});

const known = await (await fetch("models")).json();
form.model.append(...Object.keys(known.models).map((name) => element("option", {}, name)));
form.model.hidden = form.model.length < 2;
