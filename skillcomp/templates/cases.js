"use strict";
// Hides the rows and articles that no chosen value of the filters fits, and keeps the reader's
// notes. It reads texts only, and sends nothing.
const form = document.forms[0], fields = form.elements;
const names = ["condition", "grader", "verdict", "words"];
const count = document.querySelector("output");
const cases = [...document.querySelectorAll("[data-hits]")].map((node) => ({
  node, hits: node.dataset.hits.split(" ").map((hit) => hit.split(".")), number: node.dataset.case,
}));
const texts = new Map();
const textOf = (number) => {
  if (!texts.has(number)) {
    const nodes = cases.filter((one) => one.number === number).map((one) => one.node.textContent);
    texts.set(number, nodes.join(" ").toLowerCase());
  }
  return texts.get(number);
};
const apply = () => {
  const [condition, grader, verdict, words] = names.map((name) => fields[name].value);
  const wanted = words.toLowerCase().trim(), left = new Set(), all = new Set();
  const fits = (hit) =>
    (!condition || hit[0] === condition) && (!grader || hit[1] === grader) && (!verdict || hit[2] === verdict);
  for (const one of cases) {
    const chosen = !(condition || grader || verdict) || one.hits.some(fits);
    one.node.hidden = !(chosen && (!wanted || textOf(one.number).includes(wanted)));
    all.add(one.number);
    if (!one.node.hidden) left.add(one.number);
  }
  count.textContent = `${left.size} of ${all.size} cases`;
  const query = new URLSearchParams(names.map((name) => [name, fields[name].value]).filter((pair) => pair[1]));
  for (const link of document.querySelectorAll("a[data-page]")) link.search = query;
};
for (const [name, value] of new URLSearchParams(location.search)) if (names.includes(name)) fields[name].value = value;
form.hidden = false;
form.addEventListener("input", apply);
form.addEventListener("submit", (event) => event.preventDefault());
apply();

// The notes on all pages of a skill, by case; a browser without storage keeps them until it leaves.
const place = `notes ${location.pathname.replace(/(\.\d+)?\.html$/, "")}`;
let notes = new Map();
try {
  notes = new Map(JSON.parse(localStorage.getItem(place)) || []);
} catch { /* the notes begin empty */ }
for (const article of document.querySelectorAll("article")) {
  const heading = article.querySelector("h2"), name = heading.textContent;
  const label = document.createElement("label"), box = document.createElement("textarea");
  label.className = "note";
  label.textContent = "Note";
  box.rows = 2;
  box.value = notes.get(name) || "";
  box.addEventListener("input", () => {
    notes.set(name, box.value);
    try {
      localStorage.setItem(place, JSON.stringify([...notes]));
    } catch { /* the page still has them */ }
  });
  label.append(box);
  heading.after(label);
}
// A spreadsheet would run a cell that begins with one of these signs.
const cell = (text) => `"${/^[=+\-@\t\r]/.test(text) ? "'" : ""}${text.replaceAll('"', '""')}"`;
document.querySelector("button").addEventListener("click", () => {
  const skill = document.querySelector("h1 bdi").textContent;
  const written = [...notes].filter(([, note]) => note.trim());
  const rows = [["skill", "case", "note"], ...written.map((row) => [skill, ...row])];
  const table = rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["\ufeff", table], { type: "text/csv" }));
  link.download = "notes.csv";
  link.click();
});
