/* What is shown, the controls that change it, and the page as a whole. */

const DATA = JSON.parse(document.getElementById("data").textContent);
const view = {
  environments: new Set(DATA.environments.keys()),
  algorithms: new Set(DATA.shown),
  smoothing: 0, logX: false, logY: false, band: "error", each: false,
};

function draw() {
  drawPanels();
  drawStatistics();
  drawSpeed();
  drawSensitivity();
}

/** A row of chips that can be switched on and off, after shortcuts that choose many at once. */
function chips(id, labels, order, chosen, shortcuts, decorate = () => []) {
  const chipOf = new Map(order.map((i) => [i, element("button", { type: "button", class: "chip" }, ...decorate(i), labels[i])]));
  const mark = () => chipOf.forEach((chip, i) => chip.setAttribute("aria-pressed", chosen.has(i)));
  const place = document.getElementById(id);
  if (order.length > 1) {
    for (const [label, members] of shortcuts) {
      const button = element("button", { type: "button", class: "quick" }, label);
      button.addEventListener("click", () => {
        chosen.clear();
        for (const member of members) chosen.add(member);
        mark();
        draw();
      });
      place.append(button);
    }
  }
  chipOf.forEach((chip, i) => chip.addEventListener("click", () => {
    if (!chosen.delete(i)) chosen.add(i);
    mark();
    draw();
  }));
  place.append(...chipOf.values());
  mark();
}

function wireControls() {
  const environments = [...DATA.environments.keys()];
  chips("environments", DATA.environments, environments, view.environments, [["all", environments], ["none", []]]);
  const labels = DATA.algorithms.map((algorithm) => algorithm.label);
  const algorithms = [...new Set([...DATA.shown, ...DATA.algorithms.keys()])]; // those shown at first come first
  const few = DATA.shown.length < algorithms.length;
  const shortcuts = [["all", algorithms], ["none", []], ...(few ? [["best of each agent", DATA.shown]] : [])];
  chips("algorithms", labels, algorithms, view.algorithms, shortcuts, (i) => [swatch(i)]);
  document.getElementById("few").hidden = !few;
  const band = document.getElementById("band");
  view.band = band.value; // a browser may remember it from before a reload
  band.addEventListener("change", () => { view.band = band.value; drawPanels(); });
  for (const [id, name] of [["log-x", "logX"], ["log-y", "logY"], ["each", "each"]]) {
    const box = document.getElementById(id);
    view[name] = box.checked;
    box.addEventListener("change", () => { view[name] = box.checked; drawPanels(); });
  }
  const slider = document.getElementById("smoothing");
  const smoothing = () => {
    view.smoothing = Number(slider.value);
    document.getElementById("window").textContent = view.smoothing ? `${2 * view.smoothing + 1} points` : "off";
  };
  smoothing();
  slider.addEventListener("input", () => { smoothing(); drawPanels(); });
  document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());
  const setting = document.getElementById("setting");
  setting.append(...Object.keys(DATA.settings).map((name) => element("option", {}, name)));
  setting.addEventListener("change", drawSensitivity);
  document.getElementById("sensitivity").hidden = !Object.keys(DATA.settings).length;
}

function drawContents() {
  document.getElementById("facts").textContent = DATA.facts;
  for (const section of document.querySelectorAll("main > section:not([hidden])")) {
    document.getElementById("contents").append(element("a", { href: `#${section.id}` }, section.querySelector("h2").textContent));
  }
}

wireControls();
drawContents();
drawConfigurations();
drawRuns();
drawProvenance();
drawCommands();
draw();

let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return;
  width = window.innerWidth;
  drawPanels();
  drawSensitivity();
});
window.addEventListener("scroll", hideTooltip, { passive: true });
