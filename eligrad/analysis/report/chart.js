/* Scales, axes and lines. Nothing here knows the report. */
"use strict";

/** Pixels that a letter of a tick's label is wide, at most. */
const LETTER = 7.5;

/** An element whose children may be strings: those become text and are never read as HTML. */
function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

/** A number with four figures: 1,234,567 · 12.35 · 0.001234. */
function shown(number) {
  if (number === null || number === undefined) return "–";
  const size = Math.abs(number);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return number.toExponential(2).replace("-", "−");
  return fixed(number, size >= 1000 ? 0 : 3 - Math.floor(Math.log10(Math.max(size, 1e-3))), 0);
}

/** A number with at most, or exactly, so many decimals. */
function fixed(number, decimals, least = decimals) {
  const most = Math.min(Math.max(decimals, 0), 12);
  const text = number.toLocaleString("en", { minimumFractionDigits: Math.min(most, Math.max(0, least)), maximumFractionDigits: most });
  return text.replace(/^-(?=[0.]*$)/, "").replace("-", "−");
}

/** Mean ± error, both to the second figure of the error. */
function plusMinus({ mean, error }) {
  if (mean === null || !error || error >= 1e6 || error < 1e-6) return error === null ? shown(mean) : `${shown(mean)} ± ${shown(error)}`;
  const decimals = 1 - Math.floor(Math.log10(error));
  return `${fixed(mean, decimals)} ± ${fixed(error, decimals)}`;
}

/** Steps and ticks in short: 250k, 1.5M. */
function short(number) {
  for (const [unit, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(number) >= unit) return shown(number / unit) + letter;
  }
  return shown(number);
}

/** From values to pixels, with ticks about `gap` pixels apart; logarithmic ones take positive values only. */
function makeScale(low, high, from, to, log, gap) {
  if (log) [low, high] = [Math.log10(low), Math.log10(high)];
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const scale = (value) => from + (((log ? Math.log10(value) : value) - low) / (high - low)) * (to - from);
  scale.invert = (pixel) => {
    const value = low + ((pixel - from) / (to - from)) * (high - low);
    return log ? 10 ** value : value;
  };
  scale.accepts = (value) => value !== null && (!log || value > 0);
  scale.ticks = log ? logTicks(low, high) : linearTicks(low, high, Math.abs(to - from) / gap);
  return scale;
}

function linearTicks(low, high, count) {
  const rough = (high - low) / Math.max(2, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((multiple) => multiple * power >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) ticks.push(i * step);
  return ticks;
}

function logTicks(low, high) {
  const multiples = high - low > 2.5 ? [1] : high - low > 1 ? [1, 3] : [1, 2, 3, 5, 7];
  const ticks = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); power++) {
    for (const multiple of multiples) {
      const log = power + Math.log10(multiple);
      if (log >= low - 1e-9 && log <= high + 1e-9) ticks.push(multiple * 10 ** power);
    }
  }
  return ticks;
}

/** An SVG with axes: where lines are drawn, and the two scales that place them. */
function makeFrame({ width, height, x, y, xLabel, yLabel, xTicks = null }) {
  const area = { left: 52, right: width - 14, top: 10, bottom: height - 40 };
  const xScale = makeScale(x.low, x.high, area.left, area.right, x.log, 75);
  const yScale = makeScale(y.low, y.high, area.bottom, area.top, y.log, 45);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}` });
  for (const tick of yScale.ticks) {
    const at = yScale(tick);
    root.append(
      svg("line", { class: "grid", x1: area.left, x2: area.right, y1: at, y2: at }),
      svg("text", { x: area.left - 7, y: at + 4, "text-anchor": "end" }, short(tick)),
    );
  }
  let taken = 0;
  for (const [tick, label] of xTicks ?? xScale.ticks.map((tick) => [tick, short(tick)])) {
    const at = xScale(tick);
    root.append(svg("line", { class: "axis", x1: at, x2: at, y1: area.bottom, y2: area.bottom + 4 }));
    // Within the picture, and none over the one before it.
    const half = label.length * LETTER / 2;
    const middle = Math.max(half, Math.min(at, width - half));
    if (middle - half < taken) continue;
    taken = middle + half + LETTER;
    root.append(svg("text", { x: middle, y: area.bottom + 17, "text-anchor": "middle" }, label));
  }
  root.append(
    svg("line", { class: "axis", x1: area.left, x2: area.right, y1: area.bottom, y2: area.bottom }),
    svg("text", { x: (area.left + area.right) / 2, y: height - 6, "text-anchor": "middle" }, xLabel),
    svg("text", { transform: `translate(12 ${(area.top + area.bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, yLabel),
  );
  return { root, area, x: xScale, y: yScale };
}

/** A path through the points that both scales accept, broken where one is missing. */
function linePath(frame, steps, values) {
  let path = "";
  let pen = "M";
  for (let i = 0; i < steps.length; i++) {
    if (frame.x.accepts(steps[i]) && frame.y.accepts(values[i])) {
      path += `${pen}${frame.x(steps[i]).toFixed(1)} ${frame.y(values[i]).toFixed(1)}`;
      pen = "L";
    } else pen = "M";
  }
  return path;
}

/** The stretches between a lower and an upper line, each as a closed path. */
function bandPath(frame, steps, lower, upper) {
  let path = "";
  let stretch = [];
  const close = () => {
    if (stretch.length > 1) {
      const point = (i, values) => `${frame.x(steps[i]).toFixed(1)} ${frame.y(values[i]).toFixed(1)}`;
      const there = stretch.map((i) => point(i, upper));
      const back = stretch.reverse().map((i) => point(i, lower));
      path += `M${there.concat(back).join("L")}Z`;
    }
    stretch = [];
  };
  for (let i = 0; i < steps.length; i++) {
    if (frame.x.accepts(steps[i]) && frame.y.accepts(lower[i]) && frame.y.accepts(upper[i])) stretch.push(i);
    else close();
  }
  close();
  return path;
}

/** Moving average over `reach` points to either side, of those that are there. */
function smooth(values, reach) {
  if (reach === 0) return values;
  return values.map((value, at) => {
    if (value === null) return null;
    const near = values.slice(Math.max(0, at - reach), at + reach + 1).filter((other) => other !== null);
    return near.reduce((sum, other) => sum + other, 0) / near.length;
  });
}

/** Mean and standard error over lines, where all of them have a value. */
function meanAndError(lines) {
  const mean = [];
  const error = [];
  for (let i = 0; i < (lines[0] ?? []).length; i++) {
    const values = lines.map((line) => line[i]);
    const n = values.length;
    const centre = values.includes(null) ? null : values.reduce((sum, value) => sum + value, 0) / n;
    const squares = values.reduce((sum, value) => sum + (value - centre) ** 2, 0);
    mean.push(centre);
    error.push(n > 1 && centre !== null ? Math.sqrt(squares / (n - 1) / n) : null);
  }
  return { mean, error };
}

/** The place in ascending `sorted` that is nearest to `value`. */
function nearest(sorted, value) {
  let low = 0;
  let high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle;
    else high = middle;
  }
  return value - sorted[low] <= sorted[high] - value ? low : high;
}
