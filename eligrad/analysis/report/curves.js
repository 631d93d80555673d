/* The panels of learning curves: one for each environment, with values under the pointer. */

const TOOLTIP_ROWS = 14;

/** The curves of an environment that are switched on, smoothed as asked. */
function visibleCurves(environment) {
  return DATA.curves
    .filter((curve) => curve.environment === environment && view.algorithms.has(curve.algorithm))
    .map((curve) => {
      const each = curve.each.map((line) => smooth(line, view.smoothing));
      // The standard error of smoothed lines is not the smoothed standard error.
      const { mean, error } = view.smoothing && each.length ? meanAndError(each) : curve;
      const spread = error.map((value) => (value === null ? null : value * (view.band === "interval" ? curve.interval : 1)));
      const shift = (sign) => mean.map((value, i) => (spread[i] === null ? null : value + sign * spread[i]));
      return { ...curve, each, mean, error, spread, lower: shift(-1), upper: shift(+1) };
    });
}

/** Lowest and highest of what is drawn, with a little air above and below. */
function extent(curves) {
  let [low, high] = [Infinity, -Infinity];
  for (const curve of curves) {
    const lines = [curve.mean, ...(view.band ? [curve.lower, curve.upper] : []), ...(view.each ? curve.each : [])];
    for (const line of lines) {
      for (const value of line) {
        if (value === null || (view.logY && value <= 0)) continue;
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    }
  }
  if (low > high) return null;
  const air = view.logY ? 0 : (high - low) * 0.04;
  return { low: low - air, high: high + air, log: view.logY };
}

function coloured(node, algorithm) {
  node.classList.add("of-algorithm");
  node.style.setProperty("--colour", DATA.algorithms[algorithm].colour);
  return node;
}

function dashOf(algorithm) {
  return DATA.algorithms[algorithm].dash || null;
}

function swatch(algorithm, dash = dashOf(algorithm)) {
  const line = svg("line", { x1: 0, x2: 24, y1: 4, y2: 4, "stroke-dasharray": dash });
  return coloured(svg("svg", { class: "swatch", viewBox: "0 0 24 8", "aria-hidden": "true" }, line), algorithm);
}

function drawPanels() {
  hideTooltip();
  const shownEnvironments = DATA.environments.map((_, i) => i).filter((i) => view.environments.has(i));
  const panels = document.getElementById("panels");
  panels.replaceChildren();
  if (!shownEnvironments.length) panels.append(element("p", { class: "empty" }, "No environment is chosen."));
  // All of them first: how wide one is depends on how many there are.
  const places = shownEnvironments.map((environment) => makePanel(panels, DATA.environments[environment]));
  places.forEach((panel, i) => drawPanel(panel, shownEnvironments[i], places.length === 1 ? 440 : 290));
}

function makePanel(place, title) {
  const panel = element("figure", { class: "panel" }, element("h3", {}, title));
  place.append(panel);
  return panel;
}

function drawPanel(panel, environment, height) {
  const curves = visibleCurves(environment);
  const y = extent(curves);
  if (!y) {
    panel.append(element("p", { class: "empty" }, curves.length ? "No episode has ended yet." : "No algorithm is chosen."));
    return;
  }
  const steps = curves.flatMap((curve) => curve.steps);
  const x = { low: view.logX ? steps.reduce((a, b) => Math.min(a, b)) : 0, high: steps.reduce((a, b) => Math.max(a, b)), log: view.logX };
  const frame = makeFrame({ width: panel.clientWidth - 24, height, x, y, xLabel: "environment steps", yLabel: "return of an episode" });
  for (const curve of curves) {
    const add = (tag, attributes) => frame.root.append(coloured(svg(tag, attributes), curve.algorithm));
    if (view.band) add("path", { class: "band", d: bandPath(frame, curve.steps, curve.lower, curve.upper) });
    if (view.each) for (const line of curve.each) add("path", { class: "seed", d: linePath(frame, curve.steps, line) });
    for (const step of curve.diverged) {
      const [at, base] = [frame.x(Math.max(step, x.low)), frame.area.bottom - 6];
      add("path", { class: "cross", d: `M${at - 4} ${base - 4}l8 8m0 -8l-8 8` });
    }
  }
  for (const curve of curves) {
    const path = svg("path", { class: "mean", d: linePath(frame, curve.steps, curve.mean), "stroke-dasharray": dashOf(curve.algorithm) });
    frame.root.append(coloured(path, curve.algorithm));
    curve.path = path;
  }
  // For small screens, on which the chips are out of sight.
  const names = legend(curves.map(({ algorithm }) => [swatch(algorithm), DATA.algorithms[algorithm].label]), "small-screens");
  panel.append(frame.root, names, element("p", { class: "foot" }, footnote(curves)));
  listen(frame, curves, DATA.environments[environment]);
}

/** The names of lines under a panel, each after its swatch. */
function legend(names, kind = "") {
  return element("p", { class: `legend ${kind}` }, ...names.map((each) => element("span", {}, ...each)));
}

/** What a reader of the panel must know: runs that diverged or are in no mean, points that a log axis leaves out. */
function footnote(curves) {
  const notes = curves.flatMap((curve) => {
    const counts = [["diverged (×)", curve.diverged.length], ["without an episode", curve.without_episode]];
    const runs = curve.seeds.length + curve.without_episode;
    return counts.filter(([, count]) => count).map(([what, count]) => `${DATA.algorithms[curve.algorithm].label}: ${count} of ${runs} ${what}`);
  });
  const hidden = view.logY ? curves.reduce((sum, curve) => sum + curve.mean.filter((value) => value !== null && value <= 0).length, 0) : 0;
  if (hidden) notes.push(`${hidden} ${hidden === 1 ? "point" : "points"} at or below 0 cannot be on a log axis`);
  return notes.join("; ");
}

/** Values under the pointer, and by the arrow keys for whoever has none. */
function listen(frame, curves, title) {
  const { root, area } = frame;
  const crosshair = svg("line", { class: "crosshair", y1: area.top, y2: area.bottom, visibility: "hidden" });
  root.append(crosshair);
  fill(root, { tabindex: 0, role: "img", "aria-label": `Learning curves on ${title}; arrow keys move along the steps` }, []);
  const grid = curves.reduce((longest, curve) => (curve.steps.length > longest.length ? curve.steps : longest), []);
  let place = -1;

  function show(at, pixelY) {
    place = at;
    const step = grid[at];
    const pixel = frame.x(step);
    fill(crosshair, { x1: pixel, x2: pixel, visibility: "visible" }, []);
    const rows = curves.flatMap((curve) => {
      const i = nearest(curve.steps, step);
      const within = step <= curve.steps.at(-1) && curve.mean[i] !== null;
      return within ? [{ curve, mean: curve.mean[i], error: curve.spread[i] }] : [];
    });
    rows.sort((a, b) => b.mean - a.mean);
    const distance = (row) => (frame.y.accepts(row.mean) ? Math.abs(frame.y(row.mean) - pixelY) : Infinity);
    const near = pixelY === null ? null : rows.reduce((best, row) => (best && distance(best) <= distance(row) ? best : row), null);
    for (const curve of curves) curve.path.classList.toggle("near", near?.curve === curve);
    showTooltip(root, pixel, step, rows, near);
  }

  function leave() {
    place = -1;
    crosshair.setAttribute("visibility", "hidden");
    for (const curve of curves) curve.path.classList.remove("near");
    hideTooltip();
  }

  root.addEventListener("pointermove", (event) => {
    const box = root.getBoundingClientRect();
    const unit = root.viewBox.baseVal.width / box.width;
    const [x, y] = [(event.clientX - box.left) * unit, (event.clientY - box.top) * unit];
    if (x < area.left - 4 || x > area.right + 4) leave();
    else show(nearest(grid, frame.x.invert(x)), y);
  });
  root.addEventListener("pointerleave", leave);
  root.addEventListener("blur", leave);
  root.addEventListener("keydown", (event) => {
    const last = grid.length - 1;
    const moves = { ArrowRight: place + 1, ArrowLeft: place < 0 ? last : place - 1, PageDown: place + 10, PageUp: place - 10, Home: 0, End: last };
    if (event.key === "Escape") leave();
    else if (event.key in moves) {
      event.preventDefault();
      show(Math.min(last, Math.max(0, moves[event.key])), null);
    }
  });
}

function showTooltip(root, pixel, step, rows, near) {
  const body = element("table");
  for (const row of rows.slice(0, TOOLTIP_ROWS)) {
    const { algorithm, seeds } = row.curve;
    body.append(
      element("tr", { class: row === near ? "near" : null },
        element("td", {}, swatch(algorithm)),
        element("td", {}, DATA.algorithms[algorithm].label),
        element("td", {}, plusMinus(row)),
        element("td", { class: "quiet" }, `n = ${seeds.length}`)),
    );
  }
  const more = rows.length - TOOLTIP_ROWS;
  if (more > 0) body.append(element("tr", {}, element("td", { colspan: 4, class: "quiet" }, `and ${more} more below`)));
  const tooltip = document.getElementById("tooltip");
  tooltip.replaceChildren(element("div", { class: "quiet" }, `step ${step.toLocaleString("en")}`), body);
  tooltip.hidden = false;
  const box = root.getBoundingClientRect();
  const x = box.left + (pixel * box.width) / root.viewBox.baseVal.width;
  const fits = x + 16 + tooltip.offsetWidth < window.innerWidth;
  tooltip.style.left = `${Math.max(4, fits ? x + 16 : x - 16 - tooltip.offsetWidth)}px`;
  tooltip.style.top = `${Math.max(4, Math.min(box.top + 24, window.innerHeight - tooltip.offsetHeight - 8))}px`;
}

function hideTooltip() {
  document.getElementById("tooltip").hidden = true;
}
