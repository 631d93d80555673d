/* Tables, bars and everything that is written rather than drawn as a curve. */

/** Lists that are longer begin closed. */
const FEW = 12;

/** A table whose columns can be sorted, and that scrolls where it is too wide; a column is [heading, cell of a row, sort key or null]. */
function sortableTable(rows, columns, caption = null) {
  const body = element("tbody");
  const heads = columns.map(([heading, , key], i) => {
    const button = element("button", { type: "button" }, heading);
    const head = element("th", { scope: "col", class: typeof rows[0]?.[key] === "number" ? "number" : null }, key ? button : heading);
    button.addEventListener("click", () => {
      const falling = head.getAttribute("aria-sort") !== "descending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      order(columns[i][2], falling);
    });
    return head;
  });

  function order(key, falling) {
    const sorted = key === null ? rows : [...rows].sort((a, b) => compare(a[key], b[key], falling));
    body.replaceChildren(...sorted.map((row) => element("tr", {}, ...columns.map(([, cell]) => cell(row)))));
  }
  order(null, false);
  const table = element("table", { class: "data" }, element("thead", {}, element("tr", {}, ...heads)), body);
  if (caption) table.prepend(element("caption", {}, caption));
  return element("div", { class: "wide" }, table);
}

/** Missing values come last, whichever way the others go. */
function compare(a, b, falling) {
  const missing = (value) => value === null || value === undefined;
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  const sign = typeof a === "string" ? a.localeCompare(b) : a - b;
  return falling ? -sign : sign;
}

function text(value) {
  return element("td", {}, value);
}

function number(value) {
  return element("td", { class: "number" }, typeof value === "string" ? value : shown(value));
}

function named(algorithm) {
  return element("td", {}, swatch(algorithm), DATA.algorithms[algorithm].label);
}

function isShown({ algorithm, environment }) {
  return view.algorithms.has(algorithm) && (environment === undefined || view.environments.has(environment));
}

const MEASURES = [["last", "Last tenth"], ["area", "Area under curve"], ["all", "All episodes"]];

function drawStatistics() {
  const rows = DATA.statistics.filter(isShown).map((row) => ({
    ...row,
    name: DATA.algorithms[row.algorithm].label,
    environmentName: DATA.environments[row.environment],
    ...Object.fromEntries(MEASURES.map(([key]) => [`${key}Mean`, row[key].mean])),
  }));
  const best = (key, row) => rows.every((other) => other.environment !== row.environment || !(other[key].mean > row[key].mean));
  const measure = ([key, heading]) => [
    heading,
    (row) => {
      const cell = number(plusMinus(row[key]));
      if (row[key].mean !== null && best(key, row)) cell.classList.add("best");
      return cell;
    },
    `${key}Mean`,
  ];
  const without = ["Without an episode", (row) => number(row.without_episode), "without_episode"];
  document.getElementById("statistics-table").replaceChildren(
    sortableTable(rows, [
      ["Environment", (row) => text(row.environmentName), "environmentName"],
      ["Algorithm", (row) => named(row.algorithm), "name"],
      ...MEASURES.map(measure),
      ["Seeds", (row) => number(row.seeds), "seeds"],
      ["Finished", (row) => number(row.finished), "finished"],
      ["Diverged", (row) => number(row.diverged), "diverged"],
      ...(rows.some((row) => row.without_episode) ? [without] : []),
    ]),
  );
  const aggregate = document.getElementById("aggregate");
  aggregate.replaceChildren();
  const across = DATA.aggregate.filter(isShown).map((row) => ({ ...row, name: DATA.algorithms[row.algorithm].label }));
  if (!across.length) return;
  aggregate.append(
    sortableTable(across, [
      ["Algorithm", (row) => named(row.algorithm), "name"],
      ["IQM", (row) => number(row.value), "value"],
      ["95 % interval", (row) => number(`${shown(row.low)} to ${shown(row.high)}`), "low"],
      ["Runs", (row) => number(row.runs), "runs"],
    ], "Over all environments in which configurations differ, of algorithms whose finished runs all have a score: interquartile mean of the last tenth's returns, on a scale on which the worst configuration of an environment has mean 0 and the best 1"),
  );
}

function drawSpeed() {
  const place = document.getElementById("speed-bars");
  place.replaceChildren();
  for (const [environment, title] of DATA.environments.entries()) {
    const rows = DATA.statistics.filter((row) => row.environment === environment && row.speed !== null && isShown(row));
    if (!rows.length) continue;
    const top = Math.max(...rows.map((row) => row.speed));
    const bars = element("div", { class: "bars" });
    for (const row of rows) {
      const bar = coloured(element("div", { class: "bar" }), row.algorithm);
      bar.style.width = `${(100 * row.speed) / top}%`;
      bars.append(element("span", {}, DATA.algorithms[row.algorithm].label), bar, element("span", {}, `${shown(row.speed)} steps/s`));
    }
    place.append(element("h3", {}, title), bars);
  }
}

function drawSensitivity() {
  const setting = document.getElementById("setting").value;
  document.getElementById("lengths").hidden = new Set(DATA.statistics.map((row) => row.steps)).size < 2;
  const place = document.getElementById("sensitivity-panels");
  place.replaceChildren();
  if (!setting) return;
  const drawn = [...DATA.environments.keys()].map((environment) => dotsOf(setting, environment));
  const panels = drawn.map((dots, environment) => dots.length && makePanel(place, DATA.environments[environment]));
  panels.forEach((panel, environment) => panel && drawDots(panel, setting, drawn[environment]));
}

/** A dot for each configuration, shown above or not, of agents with several values here that are shown above. */
function dotsOf(setting, environment) {
  const dots = DATA.statistics
    .filter((row) => row.environment === environment && view.environments.has(environment) && row.last.mean !== null)
    .map(({ algorithm, steps, last }) => ({ ...last, algorithm, steps, agent: agentOf(algorithm), value: DATA.algorithms[algorithm].settings[setting] }))
    .filter((dot) => dot.value !== undefined);
  const agents = new Set([...view.algorithms].map(agentOf));
  const tried = (agent) => new Set(dots.filter((dot) => dot.agent === agent).map((dot) => dot.value)).size;
  return dots.filter(({ agent }) => agents.has(agent) && tried(agent) > 1);
}

function agentOf(algorithm) {
  return DATA.algorithms[algorithm].agent;
}

function drawDots(panel, setting, dots) {
  const { values, log } = DATA.settings[setting];
  // Numbers stand where they belong; words, one after the other.
  const numeric = values.every((value) => typeof value === "number");
  const position = (value) => (numeric ? value : values.indexOf(value));
  const ends = dots.flatMap(({ mean, error }) => [mean - (error ?? 0), mean + (error ?? 0)]);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const frame = makeFrame({
    width: panel.clientWidth - 24,
    height: 260,
    x: { low: position(values[0]), high: position(values.at(-1)), log },
    y: { low: low - (high - low) * 0.05, high: high + (high - low) * 0.05, log: false },
    xLabel: setting,
    yLabel: "return of an episode",
    xTicks: values.length <= 8 || !numeric ? values.map((value) => [position(value), String(value)]) : null,
  });
  const names = [];
  for (const agent of new Set(dots.map((dot) => dot.agent))) {
    const lengths = [...new Set(dots.filter((dot) => dot.agent === agent).map((dot) => dot.steps))].sort((a, b) => b - a);
    lengths.forEach((steps, i) => {
      const joined = dots.filter((dot) => dot.agent === agent && dot.steps === steps);
      const dash = LENGTH_DASHES[i % LENGTH_DASHES.length];
      drawBestLine(frame, joined, position, dash);
      const { algorithm } = joined[0];
      const { title } = DATA.algorithms[algorithm];
      names.push([swatch(algorithm, dash), lengths.length > 1 ? `${title}, ${steps.toLocaleString("en")} steps` : title]);
    });
  }
  for (const dot of dots) drawDot(frame, dot, position);
  panel.append(frame.root, legend(names));
}

/** Dashes of lines through runs of different lengths, the longest first. */
const LENGTH_DASHES = [null, "7 4", "2 3", "8 3 2 3"];

function drawBestLine(frame, dots, position, dash) {
  const best = new Map();
  for (const dot of dots) if (!(best.get(dot.value)?.mean >= dot.mean)) best.set(dot.value, dot);
  const along = [...best.values()].sort((a, b) => position(a.value) - position(b.value));
  const path = linePath(frame, along.map((dot) => position(dot.value)), along.map((dot) => dot.mean));
  frame.root.append(coloured(svg("path", { class: "mean", d: path, "stroke-dasharray": dash }), dots[0].algorithm));
}

function drawDot(frame, { algorithm, value, mean, error }, position) {
  const [x, spread] = [frame.x(position(value)), error ?? 0];
  const title = svg("title", {}, `${DATA.algorithms[algorithm].label}: ${plusMinus({ mean, error })}`);
  const mark = svg("g", {},
    svg("line", { class: "whisker", x1: x, x2: x, y1: frame.y(mean - spread), y2: frame.y(mean + spread) }),
    svg("circle", { class: "dot", cx: x, cy: frame.y(mean), r: 4.5 }), title);
  frame.root.append(coloured(mark, algorithm));
}

/** What differs between configurations first; each of them in full when opened. */
function drawConfigurations() {
  const place = document.getElementById("configurations-list");
  if (DATA.differing.length) {
    place.append(sortableTable(
      DATA.algorithms.map((algorithm, i) => ({ algorithm: i, name: algorithm.label, ...algorithm.settings })),
      [["Algorithm", (row) => named(row.algorithm), "name"],
       ...DATA.differing.map((name) => [name, (row) => (typeof row[name] === "number" ? number(String(row[name])) : text(row[name] ?? "–")), name])],
      "Settings that differ",
    ));
  } else place.append(element("p", { class: "note" }, "All algorithms have the same settings."));
  const complete = DATA.configurations.map((each) => element("details", {},
    element("summary", {}, titleOf(each), " ", element("span", { class: "quiet" }, `seeds ${each.seeds}`)),
    element("pre", { tabindex: 0 }, JSON.stringify(each.configuration, null, 2))));
  if (complete.length <= FEW) place.append(...complete);
  else place.append(element("details", {}, element("summary", {}, `All ${complete.length} configurations`), ...complete));
}

function titleOf({ algorithm, environment }) {
  return `${DATA.algorithms[algorithm].label} on ${DATA.environments[environment]}`;
}

function drawRuns() {
  const rows = DATA.runs.map((run) => ({
    ...run, name: DATA.algorithms[run.algorithm].label, environmentName: DATA.environments[run.environment],
  }));
  const steps = (row) => number(row.finished ? row.step.toLocaleString("en") : `${row.step.toLocaleString("en")} of ${row.steps.toLocaleString("en")}`);
  const table = sortableTable(rows, [
    ["Environment", (row) => text(row.environmentName), "environmentName"],
    ["Algorithm", (row) => named(row.algorithm), "name"],
    ["Seed", (row) => number(String(row.seed)), "seed"],
    ["Last tenth", (row) => number(row.last), "last"],
    ["Area", (row) => number(row.area), "area"],
    ["Steps", steps, "step"],
    ["Diverged at", (row) => number(row.diverged), "diverged"],
    ["Seconds", (row) => number(row.seconds), "seconds"],
    ["Folder", (row) => text(row.run), "run"],
  ]);
  document.getElementById("runs-list").append(
    element("details", { open: rows.length <= FEW }, element("summary", {}, `${rows.length} runs, one seed each`), table),
  );
}

function drawProvenance() {
  const place = document.getElementById("provenance-list");
  for (const session of DATA.sessions) {
    const { machine, device, git_commit: commit, versions } = session;
    place.append(element("details", { open: DATA.sessions.length === 1 },
      element("summary", {}, `${device ?? "unknown device"}, ${machine ?? "unknown machine"} `,
        element("span", { class: "quiet" }, `${session.runs} ${session.runs === 1 ? "run" : "runs"}, begun ${session.first === session.last ? "" : `${session.first} to `}${session.last}`)),
      element("p", {}, commit === null ? "Not in a git repository." : `Commit ${commit.replace(/-dirty$/, ", with changes that are not committed")}`),
      element("p", {}, Object.entries(versions).map(([name, version]) => `${name} ${version}`).join(" · "))));
  }
}

/** All commands as one script. */
function drawCommands() {
  const lines = DATA.configurations.flatMap((each) => [
    `# ${titleOf(each).replace(/\s/g, " ")}`,
    ...(each.commands.length ? each.commands : ["# trained from Python with a custom agent or environment: there is no command"]),
  ]);
  document.getElementById("commands-list").append(element("pre", { class: "commands", tabindex: 0 }, lines.join("\n")));
}
