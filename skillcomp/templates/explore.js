// The view of an explorer: HTML that Python escaped, clickable rows, and keys. The dropdowns,
// sliders and buttons above it are ipywidgets.
function render({ model, el }) {
  const status = document.createElement("div");
  status.className = "scx-said";
  status.setAttribute("aria-live", "polite");
  const view = document.createElement("div");
  view.className = "scx-view";
  el.append(status, view);
  let root = el; // the whole explorer, once it is in the page
  // the note goes with the command: its own message may arrive later
  const ask = (what, value) =>
    model.send({ do: what, value, token: model.get("token"), note: root.querySelector(".scx-note input")?.value });

  let place = null;
  const draw = () => {
    const held = root.contains(document.activeElement);
    status.textContent = model.get("status");
    status.classList.toggle("scx-alarm", model.get("alarm"));
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

  view.addEventListener("click", (event) => {
    const hit = event.target.closest("[data-do]");
    if (hit && !window.getSelection().toString()) ask(hit.dataset.do, hit.dataset.value);
  });
  const keys = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const on = event.target;
    if (on.closest(".noUi-target")) return; // a slider has keys of its own
    if (on.matches("select, input")) {
      if (event.key === "Escape" || (on.type === "text" && event.key === "Enter")) {
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
    if (what === "focus") root.querySelector(`.scx-${value} :is(select, input)`)?.focus();
    else if (!event.repeat || what === "step") ask(what, value); // a held key never labels
  };
  let timer;
  const enter = () => {
    if (!el.isConnected) return void (timer = setTimeout(enter, 30));
    root = el.closest(".scx") || el;
    root.classList.add("scx");
    root.tabIndex = 0;
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", model.get("title"));
    root.dataset.lmSuppressShortcuts = "true"; // keys of JupyterLab, such as x for cut, stay away
    root.addEventListener("keydown", keys, true); // before the text field, which keeps its keys
  };
  draw();
  enter();
  model.on("change:tick", draw);
  return () => {
    clearTimeout(timer);
    root.removeEventListener("keydown", keys, true);
    model.off("change:tick", draw);
  };
}
export default { render };
