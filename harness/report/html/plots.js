// Terms, latency and rate over the same window of time, then everything wired together.
const NODE_COLORS = ["#2f8ccc", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8d80b4", "#7a8b99", "#b5a300"];
const terms = D.lanes.flatMap((lane) => lane.roles.map((role) => role[3]));
const highest = terms.reduce((most, term) => Math.max(most, term), 1);
const lowest = terms.reduce((least, term) => (term > 0 ? Math.min(least, term) : least), highest - 1);

function side(ctx, frame, colors, ticks) {
  ctx.fillStyle = colors.bg; ctx.fillRect(0, 0, LEFT, frame.height);
  ctx.fillStyle = colors.muted; ctx.textAlign = "right";
  for (const [y, text] of ticks) ctx.fillText(text, LEFT - 8, y);
  ctx.textAlign = "left";
}

register("terms", {
  draw(ctx, frame, colors) {
    const low = Math.max(0, lowest - 1), pad = 14;
    const y = (term) => frame.height - pad - ((Math.max(term, low) - low) / Math.max(1, highest - low)) * (frame.height - 2 * pad);
    const unit = Math.max(1, Math.ceil((highest - low) / 5));
    clipped(ctx, frame, () => {
      axis(ctx, frame, colors, frame.height, false);
      S.lanes.forEach((lane, index) => {
        const shift = (index - (D.lanes.length - 1) / 2) * 2.2;
        ctx.strokeStyle = ctx.fillStyle = NODE_COLORS[index % NODE_COLORS.length];
        let last = null;
        for (const [lo, hi, role, term] of lane.roles) {
          if (term < lowest) continue;
          const a = frame.x(lo), b = frame.x(hi), at = y(term) + shift;
          ctx.lineWidth = role === 2 ? 4 : 1.6;
          ctx.beginPath(); ctx.moveTo(a, at); ctx.lineTo(Math.max(b, a + 1), at); ctx.stroke();
          ctx.lineWidth = 1;
          if (last && last[1] !== at && a - last[0] < 40) { ctx.beginPath(); ctx.moveTo(a, last[1]); ctx.lineTo(a, at); ctx.stroke(); }
          last = [b, at];
        }
      });
    });
    const ticks = [];
    for (let term = low; term <= highest; term += unit) ticks.push([y(term), "term " + term]);
    side(ctx, frame, colors, ticks);
    let x = LEFT + 8;
    D.lanes.forEach((lane, index) => {
      ctx.fillStyle = NODE_COLORS[index % NODE_COLORS.length]; ctx.fillRect(x, 6, 12, 4);
      ctx.fillStyle = colors.muted; ctx.fillText(lane.node, x + 16, 9);
      x += 26 + ctx.measureText(lane.node).width;
    });
    ctx.fillText("(thick: leads)", x, 9);
  },
  hit(x, _y, frame) {
    if (x < LEFT) return null;
    const t = frame.t(x);
    const lines = D.overview && S === D ? D.nodes.map((node, lane) => node + ": " + stretchText(lane, t).split("\n")[0]) : S.lanes.map((lane) => { const role = lane.roles.find((s) => t >= s[0] && t <= s[1]); return lane.node + ": " + (role ? `term ${role[3]}, ${role[5]}` : "not known"); });
    return { text: seconds(t) + "\n" + lines.join("\n") };
  },
});

const times = D.overview ? D.rate.flatMap((bin) => (bin[4] ? [bin[3], bin[4]] : [])) : D.ops.filter((op) => op[2] < 3).map((op) => op[1] - op[0]);
const slowest = times.reduce((most, took) => Math.max(most, took), 1000);
const quickest = times.reduce((least, took) => Math.min(least, took), slowest);
const floor10 = Math.pow(10, Math.floor(Math.log10(Math.max(10, quickest)))), ceil10 = Math.pow(10, Math.ceil(Math.log10(slowest)));
function latencyY(frame, took) {
  const part = Math.log10(Math.max(took, floor10) / floor10) / Math.max(1, Math.log10(ceil10 / floor10));
  return frame.height - 10 - part * (frame.height - 20);
}
register("latency", {
  draw(ctx, frame, colors) {
    clipped(ctx, frame, () => {
      axis(ctx, frame, colors, frame.height, false);
      const from = firstAt(opsStart, frame.lo - longestOp), till = firstAt(opsStart, frame.hi);
      const names = ["ok", "opfail", "info"];
      if (S.overview) S.rate.forEach((bin, index) => {
        const x = frame.x((index + 0.5) * S.every), top = latencyY(frame, bin[4]);
        if (!bin[4] || x < LEFT || x > frame.width) return;
        ctx.fillStyle = colors.ok; ctx.globalAlpha = 0.3; ctx.fillRect(x - 1, top, 2, latencyY(frame, bin[3]) - top);
        ctx.globalAlpha = 1; ctx.fillRect(x - 1.2, latencyY(frame, bin[3]) - 1.2, 2.4, 2.4);
      });
      for (const status of [0, 1, 2]) {
        ctx.fillStyle = colors[names[status]]; ctx.globalAlpha = status ? 0.9 : till - from > 4000 ? 0.35 : 0.6;
        for (let i = from; i < till; i++) {
          const op = S.ops[i];
          if (op[2] !== status) continue;
          const x = frame.x(op[1]), y = latencyY(frame, op[1] - op[0]);
          if (status === 0) { ctx.fillRect(x - 1.2, y - 1.2, 2.4, 2.4); continue; }
          ctx.beginPath();
          if (status === 1) { ctx.rect(x - 2.5, y - 2.5, 5, 5); } else { ctx.moveTo(x, y - 3.5); ctx.lineTo(x + 3.5, y + 3); ctx.lineTo(x - 3.5, y + 3); }
          ctx.fill();
        }
      }
      ctx.globalAlpha = 1;
    });
    const ticks = [];
    for (let took = floor10; took <= ceil10; took *= 10) ticks.push([latencyY(frame, took), span(took)]);
    side(ctx, frame, colors, ticks);
    if (!CLIENTS) { ctx.fillStyle = colors.muted; ctx.fillText("no client operations in this run", LEFT + 12, frame.height / 2); }
  },
  hit(x, y, frame) {
    if (S.overview && x >= LEFT) {
      const bin = S.rate[Math.floor(frame.t(x) / S.every)];
      return bin && bin[4] ? { text: `${span(bin[3])} on average, at most ${span(bin[4])}, in ${span(S.every)}` } : null;
    }
    const from = firstAt(opsStart, frame.lo - longestOp), till = firstAt(opsStart, frame.hi);
    let best = null, least = 60;
    for (let i = from; i < till; i++) {
      const op = S.ops[i], away = (frame.x(op[1]) - x) ** 2 + (latencyY(frame, op[1] - op[0]) - y) ** 2;
      if (away < least) { best = op; least = away; }
    }
    return best && { text: `client ${best[3]}: ${best[4]}, ${D.statuses[best[2]]} after ${span(best[1] - best[0])}\n${seconds(best[1])}` };
  },
});

register("rate", {
  draw(ctx, frame, colors) {
    const every = S.every ?? 1e6, first = S.from ?? 0, tall = frame.height - 18;
    const most = S.rate.reduce((top, bin) => Math.max(top, bin[0] + bin[1] + bin[2]), 1);
    clipped(ctx, frame, () => {
      axis(ctx, frame, colors, frame.height, false);
      S.rate.forEach((bin, index) => {
        const a = frame.x(first + index * every), b = frame.x(first + (index + 1) * every);
        if (b < LEFT || a > frame.width) return;
        let y = frame.height - 4;
        ["ok", "opfail", "info"].forEach((name, status) => {
          const high = (bin[status] / most) * tall;
          ctx.fillStyle = colors[name]; ctx.globalAlpha = 0.85; ctx.fillRect(a + 0.5, y - high, Math.max(1, b - a - 1), high); y -= high;
        });
        ctx.globalAlpha = 1;
      });
    });
    side(ctx, frame, colors, [[14, String(Math.round((most * 1e6) / every))], [frame.height - 4, "0"]]);
  },
  hit(x, _y, frame) {
    const every = S.every ?? 1e6, bin = x < LEFT ? null : S.rate[Math.floor((frame.t(x) - (S.from ?? 0)) / every)];
    return bin ? { text: `${bin[0]} ok, ${bin[1]} failed, ${bin[2]} unknown in ${every === 1e6 ? "this second" : span(every)}` } : null;
  },
});

if (!CLIENTS) byId("client-plots").hidden = true;
for (const plot of plots) if (plot === overview) brushing(plot); else dragging(plot);
const actions = { prev: () => step(false), next: () => step(true), proof: violation, in: () => zoom(0.5), out: () => zoom(2), fit: () => { view.pinned = null; show(0, END); } };
for (const button of document.querySelectorAll("[data-do]")) {
  button.addEventListener("click", actions[button.dataset.do]);
  if (button.dataset.do === "proof" && !D.proofs.some((one) => !one.excused)) button.remove();
}
for (const button of document.querySelectorAll("[data-seq]")) button.addEventListener("click", () => {
  jump(Number(button.dataset.t), Number(button.dataset.seq));
  byId("space-time").scrollIntoView({ behavior: "smooth" });
});
function toggleTheme() {
  const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  redraw();
}
byId("theme").addEventListener("click", toggleTheme);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  const keys = { ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": actions.in, "=": actions.in, "-": actions.out, 0: actions.fit, n: actions.next, p: actions.prev, v: violation, d: toggleTheme };
  if (keys[event.key]) { keys[event.key](); event.preventDefault(); }
});
window.addEventListener("resize", redraw);
window.addEventListener("hashchange", recall);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
let before = null;
window.addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme ?? null; document.documentElement.dataset.theme = "light"; draw(); });
window.addEventListener("afterprint", () => { if (before) document.documentElement.dataset.theme = before; else delete document.documentElement.dataset.theme; draw(); });
draw();
recall();
