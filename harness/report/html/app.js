// The window of time that all drawings share, and what moves it: buttons, keys, wheel, drag, address.
const D = JSON.parse(document.getElementById("data").textContent);
if (D.overview) expandOverview(D);
// What is drawn now: all there is of a short run; of a long one the overview, or, as `choose` decides, a window's details.
let S = D, choose = null, note = "";
const LEFT = 62, RIGHT = 14, NARROWEST = 200;
// a little room behind the end: what ends a run at its first failure stands there
const END = Math.max(1, Math.round(D.end * 1.02) + 2e5);
const view = { lo: 0, hi: END, pinned: null };
const plots = [];
const byId = (id) => document.getElementById(id);
const tip = byId("tip");

function color(name) { return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim(); }
function theme() {
  const names = ["bg", "panel", "line", "text", "muted", "leader", "candidate", "follower", "other", "cut", "down", "frozen", "clock", "proof", "ok", "opfail", "info"];
  return Object.fromEntries(names.map((name) => [name, color(name)]));
}

function seconds(us, digits) { return "+" + (us / 1e6).toFixed(digits ?? 3) + " s"; }
function span(us) {
  if (us < 1000) return us + " µs";
  if (us < 1e6) return (us / 1000).toPrecision(3).replace(/\.0+$/, "") + " ms";
  return (us / 1e6).toPrecision(3).replace(/\.0+$/, "") + " s";
}

// A drawing: `draw(ctx, frame)`, `hit(x, y, frame)` → {text, seq?, t?} or null. `frame` knows time → x and back.
function register(id, plot) {
  const canvas = byId(id);
  Object.assign(plot, { canvas, frame: null });
  plots.push(plot);
  canvas.addEventListener("mousemove", (event) => hover(plot, event));
  canvas.addEventListener("mouseleave", () => { tip.style.display = "none"; });
}

function frameOf(plot) {
  const width = plot.canvas.clientWidth, height = plot.height ? plot.height() : plot.canvas.clientHeight;
  const lo = plot.whole ? 0 : view.lo, hi = plot.whole ? END : view.hi;
  const scale = (width - LEFT - RIGHT) / (hi - lo);
  return { width, height, lo, hi, scale, x: (t) => LEFT + (t - lo) * scale, t: (x) => lo + (x - LEFT) / scale };
}

function draw() {
  if (choose) choose();
  const colors = theme(), ratio = window.devicePixelRatio || 1;
  for (const plot of plots) {
    const frame = (plot.frame = frameOf(plot));
    const { canvas } = plot;
    if (plot.height) canvas.style.height = frame.height + "px";
    canvas.width = Math.round(frame.width * ratio);
    canvas.height = Math.round(frame.height * ratio);
    const ctx = canvas.getContext("2d");
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.fillStyle = colors.bg;
    ctx.fillRect(0, 0, frame.width, frame.height);
    ctx.font = "12px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    plot.draw(ctx, frame, colors);
  }
  byId("where").textContent = `${seconds(view.lo)} … ${seconds(view.hi)} (${span(Math.round(view.hi - view.lo))})${note}`;
}

let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}

function show(lo, hi, keep) {
  let width = Math.min(Math.max(hi - lo, NARROWEST), END);
  let start = (lo + hi) / 2 - width / 2;
  start = Math.min(Math.max(start, 0), END - width);
  view.lo = start; view.hi = start + width;
  if (!keep) remember();
  redraw();
}
function zoom(factor, at) {
  const center = at ?? (view.lo + view.hi) / 2;
  show(center - (center - view.lo) * factor, center + (view.hi - center) * factor);
}
function pan(part) { const by = (view.hi - view.lo) * part; show(view.lo + by, view.hi + by); }

// The stretch around an event that shows its story: with the other events of its findings where they are near.
function jump(t, seq) {
  view.pinned = seq ?? null;
  const proof = D.proofs.find((one) => one.seq === seq);
  let lo = t, hi = t;
  if (proof) for (const other of D.proofs) {
    if (other.of.some((key) => proof.of.includes(key)) && Math.abs(other.t - t) < 6e6) { lo = Math.min(lo, other.t); hi = Math.max(hi, other.t); }
  }
  const pad = Math.max((hi - lo) * 0.35, 6e5);
  show(lo - pad, hi + pad);
}
function violation() {
  const proof = D.proofs.filter((one) => one.of.includes(D.first)).pop(); // with its last event it became one
  if (proof) jump(proof.t, proof.seq);
}
function step(forward) {
  const stops = [...D.proofs.map((one) => [one.t, one.seq]), ...D.marks.filter((m) => D.kinds[m[2]] === "elected").map((m) => [m[0], m[4]])];
  stops.sort((a, b) => a[0] - b[0]);
  const pinned = stops.findIndex((stop) => stop[1] === view.pinned);
  const middle = pinned >= 0 ? stops[pinned][0] : (view.lo + view.hi) / 2;
  const found = forward ? stops.find((stop) => stop[0] > middle + 1) : stops.filter((stop) => stop[0] < middle - 1).pop();
  if (!found) return;
  const width = Math.min(view.hi - view.lo, 4e6);
  view.pinned = found[1];
  show(found[0] - width / 2, found[0] + width / 2);
}

function remember() {
  const parts = [];
  if (view.lo > 0 || view.hi < END) parts.push(`t=${Math.round(view.lo)},${Math.round(view.hi)}`);
  if (view.pinned !== null) parts.push(`e=${view.pinned}`);
  const hash = parts.length ? "#" + parts.join("&") : "#space-time";
  clearTimeout(remember.timer);
  remember.timer = setTimeout(() => { try { history.replaceState(null, "", hash); } catch { /* some viewers forbid it */ } }, 200);
}
function recall() {
  const time = /[#&]t=(\d+),(\d+)/.exec(location.hash), event = /[#&]e=(\d+)/.exec(location.hash);
  if (event) view.pinned = Number(event[1]);
  if (time) show(Number(time[1]), Number(time[2]), true);
  else if (event) { const mark = D.marks.find((m) => m[4] === view.pinned); if (mark) jump(mark[0], mark[4]); }
  if (time || event) byId("space-time").scrollIntoView();
}

function hover(plot, event) {
  const box = plot.canvas.getBoundingClientRect();
  const found = plot.frame && plot.hit ? plot.hit(event.clientX - box.left, event.clientY - box.top, plot.frame) : null;
  if (!found) { tip.style.display = "none"; return null; }
  tip.textContent = found.text;
  tip.style.display = "block";
  const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
  const below = event.clientY + 18 + tip.offsetHeight < window.innerHeight;
  tip.style.left = Math.max(8, left) + "px";
  tip.style.top = (below ? event.clientY + 18 : event.clientY - tip.offsetHeight - 12) + "px";
  return found;
}

function dragging(plot) {
  const { canvas } = plot;
  let from = null;
  canvas.addEventListener("wheel", (event) => {
    // a page that scrolls must not get stuck in a drawing: the wheel is ours with Ctrl, or once the drawing was clicked
    if (!event.ctrlKey && !event.shiftKey && document.activeElement !== canvas) return;
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / 900);
    else zoom(Math.exp(event.deltaY / 500), plot.frame.t(event.clientX - box.left));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    from = { x: event.clientX, lo: view.lo, hi: view.hi, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!from) return;
    const by = (event.clientX - from.x) / plot.frame.scale;
    if (Math.abs(event.clientX - from.x) > 3) { from.moved = true; canvas.classList.add("drag"); tip.style.display = "none"; }
    if (from.moved) show(from.lo - by, from.hi - by);
  });
  canvas.addEventListener("pointerup", (event) => {
    const clicked = from && !from.moved;
    from = null;
    canvas.classList.remove("drag");
    if (!clicked) return;
    const found = hover(plot, event);
    view.pinned = found && found.seq !== undefined ? found.seq : null;
    remember();
    redraw();
  });
  canvas.addEventListener("dblclick", (event) => zoom(0.35, plot.frame.t(event.clientX - canvas.getBoundingClientRect().left)));
}

function brushing(plot) {
  let start = null;
  const at = (event) => Math.min(Math.max(plot.frame.t(event.clientX - plot.canvas.getBoundingClientRect().left), 0), END);
  plot.canvas.addEventListener("pointerdown", (event) => { start = at(event); plot.canvas.setPointerCapture(event.pointerId); });
  plot.canvas.addEventListener("pointermove", (event) => {
    if (start !== null && Math.abs(at(event) - start) > END / 400) show(Math.min(start, at(event)), Math.max(start, at(event)));
  });
  plot.canvas.addEventListener("pointerup", (event) => {
    if (start !== null && Math.abs(at(event) - start) <= END / 400) { const half = (view.hi - view.lo) / 2; show(start - half, start + half); }
    start = null;
  });
}

function axis(ctx, frame, colors, bottom, labels) {
  const wanted = (frame.hi - frame.lo) / Math.max(2, (frame.width - LEFT - RIGHT) / 110);
  const unit = Math.pow(10, Math.floor(Math.log10(wanted)));
  const every = [1, 2, 5, 10].map((m) => m * unit).find((m) => m >= wanted);
  const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(every / 1e6))));
  ctx.textAlign = "center";
  for (let t = Math.ceil(frame.lo / every) * every; t <= frame.hi; t += every) {
    const x = Math.round(frame.x(t)) + 0.5;
    ctx.strokeStyle = colors.line;
    ctx.globalAlpha = 0.6;
    ctx.beginPath(); ctx.moveTo(x, labels ? 20 : 0); ctx.lineTo(x, bottom); ctx.stroke();
    ctx.globalAlpha = 1;
    if (labels && x > LEFT + 14 && x < frame.width - 26) { ctx.fillStyle = colors.muted; ctx.fillText(seconds(t, digits), x, 11); }
  }
  ctx.textAlign = "left";
}

function clipped(ctx, frame, body) {
  ctx.save();
  ctx.beginPath(); ctx.rect(LEFT, 0, frame.width - LEFT - RIGHT, frame.height); ctx.clip();
  body();
  ctx.restore();
}
