// Runs the script of a report's page outside a browser: a document and a canvas that record instead of showing.
//   node page.js PAGE STEPS   STEPS: JSON, e.g. [["show", 0, 5e6], ["load"], ["hover", "lanes", 700, 60], ["state"]]
//   node page.js PAGE look    opens it, looks around, and prints what took how long
// Prints one JSON value: the answers of the steps, or figures. A side file that the page asks for is read by "load".
"use strict";
const fs = require("fs"), path = require("path"), vm = require("vm");

function open(page) {
  const text = fs.readFileSync(page, "utf8");
  const data = /<script type="application\/json" id="data">(.*?)<\/script>/s.exec(text)[1];
  const script = /<script>("use strict".*?)<\/script>/s.exec(text)[1];
  const canvas = new Proxy({ measureText: (words) => ({ width: 6 * words.length }), createPattern: () => ({}) }, {
    get: (made, name) => made[name] ?? (() => {}),
    set: () => true,
  });
  const element = (id) => ({
    id, style: {}, dataset: {}, on: {}, classList: { add() {}, remove() {} }, clientWidth: 1400, clientHeight: 130, offsetWidth: 10, offsetHeight: 10,
    textContent: id === "data" ? data : "", hidden: id === "missing", scrollIntoView() {}, remove() {}, getContext: () => canvas,
    getBoundingClientRect: () => ({ left: 0, top: 0 }), addEventListener(name, called) { this.on[name] = called; },
  });
  const elements = {}, frames = [], asked = [];
  const world = {
    document: {
      getElementById: (id) => (elements[id] ??= element(id)), createElement: element, querySelectorAll: () => [], addEventListener() {},
      documentElement: element("html"), head: { append: (script) => asked.push(script) },
    },
    window: { addEventListener() {}, devicePixelRatio: 1, innerWidth: 1400, innerHeight: 900 },
    getComputedStyle: () => ({ getPropertyValue: (name) => name }), requestAnimationFrame: (draw) => frames.push(draw),
    matchMedia: () => ({ matches: false, addEventListener() {} }), location: { hash: "" }, history: { replaceState() {} },
    setTimeout: (called) => { called(); return 0; }, clearTimeout() {},
  };
  vm.createContext(world);
  vm.runInContext(script.replace("\n})();", "\nglobalThis.page = { show, step, D, view, plots, get S() { return S; } };\n})();"), world);
  world.dethroneDetails = world.window.dethroneDetails;
  const flush = () => { while (frames.length) frames.shift()(); };
  flush();
  return { world, elements, asked, flush, page: world.page, directory: path.dirname(page) };
}

function load(it) {
  let bytes = 0, files = 0;
  while (it.asked.length) {
    const script = it.asked.shift(), file = path.join(it.directory, decodeURIComponent(script.src));
    if (!fs.existsSync(file)) { script.on.error(); continue; }
    const source = fs.readFileSync(file, "utf8");
    bytes += source.length; files++;
    vm.runInContext(source, it.world);
    script.on.load?.();
  }
  it.flush();
  return { files, bytes };
}

const steps = {
  show: (it, lo, hi) => { it.page.show(lo, hi); it.flush(); return null; },
  step: (it) => { it.page.step(true); it.flush(); return null; },
  load,
  hover: (it, id, x, y) => { const plot = it.page.plots.find((one) => one.canvas === it.elements[id]); return plot.hit(x, y, plot.frame); },
  state: (it) => ({
    where: it.elements.where.textContent, missing: it.elements.missing ? !it.elements.missing.hidden : null, overview: it.page.S === it.page.D,
    marks: it.page.S.marks, ops: it.page.S.ops.length, lanes: it.page.S.lanes, faults: it.page.S.faults.length,
  }),
};

function look(page) {
  const timed = (what) => { const began = performance.now(); const answer = what(); return [performance.now() - began, answer]; };
  const [first, it] = timed(() => open(page));
  const end = it.page.D.end, figures = { "open_ms": first, "overview_ms": 0, "details_ms": 0, "details_again_ms": 0, "details_files": 0, "details_bytes": 0 };
  load(it);
  for (const width of [end, 36e8, 18e8, 6e8, 18e7, 6e7, 5e6]) for (const at of [0.07, 0.31, 0.5, 0.77, 0.94]) {
    const lo = end * at - width / 2, hi = lo + width;
    figures.overview_ms = Math.max(figures.overview_ms, timed(() => steps.show(it, lo, hi))[0]);
    const [ms, { files, bytes }] = timed(() => load(it));
    figures.details_ms = Math.max(figures.details_ms, ms);
    figures.details_files = Math.max(figures.details_files, files);
    figures.details_bytes = Math.max(figures.details_bytes, bytes);
    figures.details_again_ms = Math.max(figures.details_again_ms, timed(() => steps.show(it, lo + width / 50, hi + width / 50))[0]);
    load(it);
  }
  for (const name of Object.keys(figures)) figures[name] = Math.round(figures[name]);
  return figures;
}

const [page, wanted] = process.argv.slice(2);
if (wanted === "look") console.log(JSON.stringify(look(page)));
else { const it = open(page); console.log(JSON.stringify(JSON.parse(wanted).map(([name, ...words]) => steps[name](it, ...words)))); }
