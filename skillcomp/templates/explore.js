// The front end of every explorer: it draws what Python says and tells Python what was asked for.
// `view` is HTML that Python escaped; every other text is set as text.
function render({ model, el }) {
  const make = (tag, name, text) => {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const root = make("div", "scx");
  root.tabIndex = 0;
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", model.get("title"));
  root.dataset.lmSuppressShortcuts = "true"; // keys of JupyterLab, such as x for cut, stay away
  const bar = make("div", "scx-bar");
  const said = make("div", "scx-said");
  said.setAttribute("aria-live", "polite");
  const view = make("div", "scx-view");
  root.append(bar, said, view);
  el.append(root);

  let waiting = false; // a slider moves faster than Python draws: only its last place is asked for
  let latest = null;
  const ask = (what, value) => {
    if (what === "slide") {
      latest = value;
      if (waiting) return;
      [waiting, latest] = [true, null];
      model.send({ do: "set", value, token: model.get("token") });
    } else {
      model.send({ do: what, value, token: model.get("token") });
    }
  };

  const fields = new Map();
  const field = (one) => {
    if (one.kind === "button") {
      const made = make("button", "scx-button " + (one.look || ""));
      made.type = "button";
      made.append(make("span", "", one.label));
      if (one.key) made.append(make("kbd", "", one.key));
      made.addEventListener("click", () => ask(one.do, one.value));
      return { box: made, input: made };
    }
    const box = make("label", "scx-field");
    box.append(make("span", "scx-name", one.label));
    const input = make(one.kind === "select" ? "select" : "input");
    if (one.kind !== "select") input.type = { slider: "range", check: "checkbox" }[one.kind] || "text";
    input.dataset.name = one.name;
    const value = () =>
      one.kind === "check" ? input.checked : one.kind === "text" ? input.value : Number(input.value);
    const how = one.kind === "slider" ? "input" : "change";
    const what = one.kind === "slider" ? "slide" : "set";
    input.addEventListener(how, () => ask(what, { name: one.name, value: value() }));
    box.append(input);
    const out = one.kind === "slider" ? make("output") : null;
    if (out) box.append(out);
    if (one.key) box.append(make("kbd", "", one.key));
    return { box, input, out };
  };
  const fill = (made, one) => {
    const { input, out } = made;
    if (one.kind === "button") {
      input.disabled = one.off === true;
      input.setAttribute("aria-pressed", one.on === true);
    } else if (one.kind === "select") {
      const told = JSON.stringify(one.options);
      if (made.told !== told) {
        input.replaceChildren(...one.options.map((text, i) => {
          const option = make("option", "", text);
          option.value = i;
          return option;
        }));
        made.told = told;
      }
      input.value = String(one.value);
      input.classList.toggle("scx-set", one.value > 0);
    } else if (one.kind === "slider") {
      [input.min, input.max, input.step] = [one.min, one.max, 1];
      if (!waiting) input.value = one.value;
      out.textContent = one.shown;
      input.setAttribute("aria-valuetext", one.shown);
    } else if (one.kind === "check") input.checked = one.value;
    else if (document.activeElement !== input || made.place !== model.get("place")) input.value = one.value;
    made.place = model.get("place");
  };

  let drawn = "";
  let place = null;
  const draw = () => {
    const held = root.contains(document.activeElement);
    const controls = model.get("controls");
    const names = JSON.stringify(controls.map((one) => [one.kind, one.name, one.label]));
    if (drawn !== names) {
      fields.clear();
      bar.replaceChildren();
      for (const one of controls) {
        const made = field(one);
        fields.set(one.name, made);
        bar.append(made.box);
      }
      drawn = names;
    }
    controls.forEach((one) => fill(fields.get(one.name), one));
    said.textContent = model.get("status");
    said.classList.toggle("scx-alarm", model.get("alarm"));
    const open = new Set([...view.querySelectorAll("details[open][data-keep]")].map((d) => d.dataset.keep));
    const rows = view.querySelector(".scx-rows")?.scrollTop || 0;
    view.innerHTML = model.get("view");
    view.querySelectorAll("details[data-keep]").forEach((d) => {
      if (open.has(d.dataset.keep)) d.open = true;
    });
    if (place === model.get("place")) view.querySelector(".scx-rows")?.scrollTo(0, rows);
    const lit = view.querySelector(".scx-rows [aria-current=true]");
    const list = lit?.closest(".scx-rows");
    if (lit && (lit.offsetTop < list.scrollTop || lit.offsetTop + lit.offsetHeight > list.scrollTop + list.clientHeight))
      list.scrollTop = lit.offsetTop - list.clientHeight / 2;
    if (place !== model.get("place")) {
      place = model.get("place");
      const top = root.getBoundingClientRect().top;
      if (held && top < 0) root.scrollIntoView({ block: "start" });
    }
    // without the focus the next key would go to the notebook
    if (held && !root.contains(document.activeElement)) root.focus({ preventScroll: true });
  };
  const answered = () => {
    waiting = false;
    draw();
    if (latest !== null) ask("slide", latest);
  };
  model.on("change:tick", answered);

  view.addEventListener("click", (event) => {
    const hit = event.target.closest("[data-do]");
    if (hit && !window.getSelection().toString()) ask(hit.dataset.do, hit.dataset.value);
  });
  root.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const on = event.target;
    const typing = on.matches("input[type=text]");
    if (on.matches("select, input")) {
      if (event.key === "Escape" || (typing && event.key === "Enter")) {
        root.focus({ preventScroll: true });
        event.preventDefault();
      }
      event.stopPropagation();
      return;
    }
    if (event.key === "Enter" && on.dataset.do) {
      ask(on.dataset.do, on.dataset.value);
      event.preventDefault();
      return;
    }
    const asked = model.get("shortcuts")[event.key];
    if (!asked) return;
    event.preventDefault();
    event.stopPropagation();
    const [what, value] = asked;
    if (what === "focus") fields.get(value)?.input.focus();
    else if (!event.repeat || what === "step") ask(what, value); // a held key never labels
  });
  draw();
  return () => model.off("change:tick", answered);
}
export default { render };
