"use strict";
// Hides the rows and articles that no chosen value of the filters fits. It reads texts only.
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
