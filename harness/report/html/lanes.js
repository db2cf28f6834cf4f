// The space-time view: faults, a lane a node, and the clients' lane; and the whole run in small above it.
const TOP = 40, FAULT_ROW = 20, LANE = D.nodes.length > 9 ? 40 : 56;
const CLIENTS = D.ops.length > 0 || (Boolean(D.overview) && D.rate.some((bin) => bin[0] + bin[1] + bin[2])), OPS = CLIENTS ? 62 : 0;
let faultRows, lanesTop, opsTop, markStart, opsStart, longestOp;
take(D);

function take(data) {
  S = data;
  faultRows = packFaults();
  lanesTop = TOP + faultRows.count * FAULT_ROW + 8;
  opsTop = lanesTop + D.nodes.length * LANE + 6;
  markStart = S.marks.map((mark) => mark[0]);
  opsStart = S.ops.map((op) => op[0]);
  longestOp = S.ops.reduce((most, op) => Math.max(most, op[1] - op[0]), 0);
}

function packFaults() {
  const ends = [], row = new Map();
  for (const fault of S.faults) {
    if (fault.row !== undefined) { ends[fault.row] = END; row.set(fault, fault.row); continue; }
    const lo = fault.span[0], hi = fault.span[3] ?? (fault.outcome === "skipped" ? fault.span[1] : END);
    let index = ends.findIndex((end) => end <= lo);
    if (index < 0) index = ends.length < 6 ? ends.length : 5;
    ends[index] = Math.max(hi, lo + (S.span ?? END) / 60);
    row.set(fault, index);
  }
  return { count: ends.length, row };
}

function firstAt(values, t) {
  let lo = 0, hi = values.length;
  while (lo < hi) { const middle = (lo + hi) >> 1; if (values[middle] < t) lo = middle + 1; else hi = middle; }
  return lo;
}

const hatches = new Map();
function hatch(ctx, name, colors) {
  const key = name + colors[name] + (window.devicePixelRatio || 1);
  if (hatches.has(key)) return hatches.get(key);
  const tile = document.createElement("canvas"), size = 9;
  tile.width = tile.height = size;
  const pen = tile.getContext("2d");
  pen.strokeStyle = colors[name]; pen.lineWidth = name === "frozen" ? 1.6 : 1.1;
  pen.beginPath();
  if (name === "frozen") { pen.moveTo(2.5, 0); pen.lineTo(2.5, size); }
  else if (name === "down") { pen.moveTo(0, 0); pen.lineTo(size, size); pen.moveTo(-1, size - 1); pen.lineTo(1, size + 1); pen.moveTo(size - 1, -1); pen.lineTo(size + 1, 1); }
  else { pen.moveTo(0, size); pen.lineTo(size, 0); pen.moveTo(-1, 1); pen.lineTo(1, -1); pen.moveTo(size - 1, size + 1); pen.lineTo(size + 1, size - 1); }
  pen.stroke();
  const pattern = ctx.createPattern(tile, "repeat");
  hatches.set(key, pattern);
  return pattern;
}

function label(ctx, text, x, y, room) {
  if (room < 14) return;
  let shown = text;
  while (shown.length > 1 && ctx.measureText(shown + (shown === text ? "" : "…")).width > room) shown = shown.slice(0, -1);
  if (shown === text) ctx.fillText(text, x, y);
  else if (shown.length > 3) ctx.fillText(shown + "…", x, y);
}

function drawFaults(ctx, frame, colors) {
  for (const fault of S.faults) {
    const [asked, force, end, healed] = fault.span;
    const lo = frame.x(asked), hi = Math.max(lo + 3, frame.x(fault.outcome === "skipped" ? force : healed ?? END));
    if (hi < LEFT || lo > frame.width) continue;
    const y = TOP + faultRows.row.get(fault) * FAULT_ROW;
    const name = fault.color;
    ctx.fillStyle = colors[name];
    ctx.globalAlpha = fault.outcome === "installed" ? 0.3 : 0.08;
    ctx.fillRect(lo, y, hi - lo, FAULT_ROW - 4);
    ctx.globalAlpha = 1;
    ctx.strokeStyle = colors[name];
    ctx.setLineDash(fault.outcome === "installed" ? [] : [3, 3]);
    ctx.strokeRect(lo + 0.5, y + 0.5, hi - lo - 1, FAULT_ROW - 5);
    ctx.setLineDash([]);
    ctx.fillStyle = colors.text;
    const left = Math.max(lo, LEFT) + 5;
    label(ctx, fault.kind + " · " + fault.victims.join(" "), left, y + FAULT_ROW / 2 - 1, Math.min(hi, frame.width - RIGHT) - left - 3);
  }
}

function drawTroubles(ctx, frame, colors, lane, y) {
  for (const [lo, hi, kind, text, sure] of lane.troubles) {
    const a = frame.x(lo), b = Math.max(a + 1.5, frame.x(hi));
    if (b < LEFT || a > frame.width) continue;
    if (kind === "clock") {
      ctx.fillStyle = colors.clock;
      ctx.fillRect(a, y + LANE - 7, b - a, 4);
      ctx.font = "11px system-ui, sans-serif";
      const left = Math.max(a, LEFT) + 4;
      if (!lane.troubles.some((other) => other[2] !== "clock" && other[0] < hi && other[1] > lo)) label(ctx, text, left, y + LANE - 14, Math.min(b, frame.width - RIGHT) - left);
      ctx.font = "12px system-ui, sans-serif";
      continue;
    }
    const name = kind === "cut" || kind === "down" || kind === "frozen" ? kind : "other";
    ctx.fillStyle = colors[name];
    ctx.globalAlpha = sure ? 0.13 : 0.05;
    ctx.fillRect(a, y + 2, b - a, LANE - 4);
    ctx.globalAlpha = sure ? 0.55 : 0.25;
    ctx.fillStyle = hatch(ctx, name, colors);
    ctx.fillRect(a, y + 2, b - a, LANE - 4);
    ctx.globalAlpha = 1;
    ctx.strokeStyle = colors[name];
    ctx.beginPath(); ctx.moveTo(a, y + 2); ctx.lineTo(a, y + LANE - 2); ctx.moveTo(b, y + 2); ctx.lineTo(b, y + LANE - 2); ctx.stroke();
    const left = Math.max(a, LEFT) + 5, right = Math.min(b, frame.width - RIGHT);
    const word = kind === "cut" ? text.replace("hears nothing from", "✂ cut from") : text;
    ctx.font = "11px system-ui, sans-serif";
    const wide = ctx.measureText(word).width;
    if (right - left > 40) {
      ctx.fillStyle = colors.bg; ctx.globalAlpha = 0.82;
      ctx.fillRect(left - 2, y + LANE - 17, Math.min(wide + 6, right - left), 14);
      ctx.globalAlpha = 1;
      ctx.fillStyle = colors.text;
      label(ctx, word, left + 1, y + LANE - 10, right - left - 4);
    }
    ctx.font = "12px system-ui, sans-serif";
  }
}

// Of an overview's stretch, a leader's bar is as high as the part of it that the node led, but never so low as not to be seen.
function ledPart(share) { return share ? 0.35 + 0.0065 * share : 1; }
const BAR = { 0: 8, 1: 14, 2: 20, 3: 10 };
const ROLE_COLOR = ["follower", "candidate", "leader", "other"];
function drawRoles(ctx, frame, colors, lane, y) {
  const middle = y + LANE / 2 - 2;
  ctx.strokeStyle = colors.muted; ctx.setLineDash([1, 4]); ctx.globalAlpha = 0.7;
  ctx.beginPath(); ctx.moveTo(LEFT, middle); ctx.lineTo(frame.width - RIGHT, middle); ctx.stroke();
  ctx.setLineDash([]); ctx.globalAlpha = 1;
  let shownTerm = null;
  for (const [lo, hi, role, term, , , share] of lane.roles) {
    const a = frame.x(lo), b = Math.max(a + (role ? 2 : 1), frame.x(hi));
    if (b < LEFT || a > frame.width) { continue; }
    const height = BAR[role] * ledPart(share);
    ctx.fillStyle = colors[ROLE_COLOR[role]];
    ctx.fillRect(a, middle - height / 2, b - a, height);
    const left = Math.max(a, LEFT), room = Math.min(b, frame.width - RIGHT) - left;
    if (role === 2) {
      ctx.fillStyle = colors.bg; ctx.font = "bold 12px system-ui, sans-serif";
      label(ctx, "leader · term " + term, left + 6, middle + 0.5, room - 8);
      if (room - 8 < ctx.measureText("lead…").width) label(ctx, String(term), left + 3, middle + 0.5, room - 3);
      ctx.font = "12px system-ui, sans-serif";
    } else if (term !== shownTerm && room > 34) {
      ctx.fillStyle = colors.muted; ctx.font = "11px system-ui, sans-serif";
      ctx.fillText("term " + term, left + 2, middle - height / 2 - 8);
      ctx.font = "12px system-ui, sans-serif";
    }
    shownTerm = term;
  }
}

function laneMiddle(lane) { return lanesTop + lane * LANE + LANE / 2 - 2; }
function visibleMarks(frame) {
  const from = firstAt(markStart, frame.lo - 20 / frame.scale);
  const out = [];
  for (let i = from; i < S.marks.length && S.marks[i][0] <= frame.hi + 20 / frame.scale; i++) out.push(S.marks[i]);
  return out;
}

function drawMarks(ctx, frame, colors) {
  let shown = visibleMarks(frame);
  if (S.overview && shown.length > 300) shown = shown.filter((mark) => D.kinds[mark[2]] === "proof");
  const crowded = shown.length > 1200, close = frame.scale * 1e6 > 90;
  if (!crowded) for (const mark of shown) {
    if (D.kinds[mark[2]] !== "vote" || mark[6] < 0 || mark[6] === mark[1]) continue;
    const x = frame.x(mark[0]), from = laneMiddle(mark[1]), to = laneMiddle(mark[6]);
    ctx.strokeStyle = colors.muted; ctx.globalAlpha = close ? 0.75 : 0.4; ctx.lineWidth = 1;
    ctx.beginPath(); ctx.moveTo(x, from); ctx.lineTo(x, to + (to > from ? -12 : 12)); ctx.stroke();
    if (close) {
      const tipY = to + (to > from ? -11 : 11), back = to > from ? -6 : 6;
      ctx.fillStyle = colors.muted;
      ctx.beginPath(); ctx.moveTo(x, tipY); ctx.lineTo(x - 3.5, tipY + back); ctx.lineTo(x + 3.5, tipY + back); ctx.fill();
    }
    ctx.globalAlpha = 1;
  }
  ctx.textAlign = "center";
  for (const mark of shown) {
    const [t, lane, kindIndex, , seq] = mark, kind = D.kinds[kindIndex];
    const x = frame.x(t), y = laneMiddle(lane);
    if (kind === "vote") {
      if (crowded) continue;
      ctx.fillStyle = colors.muted;
      ctx.beginPath(); ctx.arc(x, y, close ? 3.2 : 1.8, 0, 7); ctx.fill();
    } else if (kind === "pre-vote") {
      if (crowded) continue;
      ctx.strokeStyle = colors.candidate; ctx.globalAlpha = 0.6;
      ctx.beginPath(); ctx.arc(x, y - 14, 2.2, 0, 7); ctx.stroke(); ctx.globalAlpha = 1;
    } else if (kind === "campaign") {
      ctx.strokeStyle = colors.candidate; ctx.fillStyle = colors.bg; ctx.lineWidth = 2;
      ctx.beginPath(); ctx.arc(x, y - 15, 4, 0, 7); ctx.fill(); ctx.stroke(); ctx.lineWidth = 1;
    } else if (kind === "elected") {
      ctx.font = "17px system-ui, sans-serif"; ctx.strokeStyle = colors.bg; ctx.lineWidth = 3;
      ctx.strokeText("★", x, y - 18); ctx.fillStyle = colors.leader; ctx.fillText("★", x, y - 18);
      ctx.lineWidth = 1; ctx.font = "12px system-ui, sans-serif";
    } else if (kind === "step-down") { ctx.fillStyle = colors.muted; ctx.fillText("▼", x, y - 16); }
    else if (kind === "started") { ctx.fillStyle = colors.clock; ctx.fillText("▲", x, y + 16); }
    else if (kind === "exited") { ctx.fillStyle = colors.text; ctx.font = "bold 14px system-ui, sans-serif"; ctx.fillText("✕", x, y); ctx.font = "12px system-ui, sans-serif"; }
    if (seq === view.pinned) { ctx.strokeStyle = colors.text; ctx.strokeRect(x - 11, y - 27, 22, 42); }
  }
  ctx.textAlign = "left";
}

function drawProofs(ctx, frame, colors) {
  for (const proof of D.proofs) {
    const x = frame.x(proof.t);
    if (x < LEFT - 12 || x > frame.width) continue;
    ctx.strokeStyle = proof.excused ? colors.muted : colors.proof; ctx.setLineDash([5, 4]); ctx.globalAlpha = proof.excused ? 0.4 : 0.75;
    ctx.beginPath(); ctx.moveTo(x, 20); ctx.lineTo(x, opsTop); ctx.stroke();
    ctx.setLineDash([]); ctx.globalAlpha = 1;
    if (proof.lane >= 0) {
      ctx.lineWidth = 2.5;
      ctx.beginPath(); ctx.arc(x, laneMiddle(proof.lane), 14, 0, 7); ctx.stroke();
      ctx.lineWidth = 1;
    }
  }
}

function drawOps(ctx, frame, colors) {
  if (!OPS) return;
  const from = firstAt(opsStart, frame.lo - longestOp), till = firstAt(opsStart, frame.hi);
  const names = ["ok", "opfail", "info", "info"], count = till - from;
  ctx.strokeStyle = colors.line;
  ctx.beginPath(); ctx.moveTo(0, opsTop - 3); ctx.lineTo(frame.width, opsTop - 3); ctx.stroke();
  if (count > 1500 || S.overview) {
    const columns = new Map();
    if (S.overview) S.rate.forEach((bin, index) => {
      const x = Math.floor(frame.x(index * S.every) / 4) * 4, at = columns.get(x) ?? [0, 0, 0];
      for (const status of [0, 1, 2]) at[status] += bin[status];
      if (x > -8 && x < frame.width) columns.set(x, at);
    });
    for (let i = from; i < till; i++) {
      const x = Math.floor(frame.x(S.ops[i][1]) / 4) * 4;
      const at = columns.get(x) ?? [0, 0, 0];
      at[Math.min(S.ops[i][2], 2)]++;
      columns.set(x, at);
    }
    let most = 1;
    for (const at of columns.values()) most = Math.max(most, at[0] + at[1] + at[2]);
    const tall = OPS - 10;
    for (const [x, at] of columns) {
      let y = opsTop + OPS - 4;
      at.forEach((n, status) => {
        const high = (n / most) * tall;
        ctx.fillStyle = colors[names[status]];
        ctx.fillRect(x, y - high, 3.2, high); y -= high;
      });
    }
    return;
  }
  const clients = Math.min(12, 1 + S.ops.reduce((most, op) => Math.max(most, op[3]), 0)), row = (OPS - 8) / clients;
  for (let i = from; i < till; i++) {
    const [asked, answered, status, client] = S.ops[i];
    const y = opsTop + 2 + (client % clients) * row, high = Math.max(2, Math.min(row - 1.5, 7));
    ctx.fillStyle = colors[names[status]];
    ctx.globalAlpha = status === 3 ? 0.4 : 0.9;
    ctx.fillRect(frame.x(asked), y, Math.max(1.5, (answered - asked) * frame.scale), high);
    ctx.globalAlpha = 1;
  }
}

function gutter(ctx, frame, colors) {
  ctx.fillStyle = colors.bg; ctx.fillRect(0, 20, LEFT, frame.height - 20);
  ctx.fillStyle = colors.muted;
  if (D.phases.length) ctx.fillText("phase", 10, 29);
  if (faultRows.count) ctx.fillText("faults", 10, TOP + FAULT_ROW / 2 - 1);
  if (OPS) ctx.fillText("clients", 10, opsTop + OPS / 2 - 4);
  ctx.font = "bold 13px system-ui, sans-serif"; ctx.fillStyle = colors.text;
  S.lanes.forEach((lane, index) => label(ctx, lane.node, 10, laneMiddle(index), LEFT - 14));
  ctx.font = "12px system-ui, sans-serif";
}

register("lanes", {
  height: () => opsTop + OPS,
  draw(ctx, frame, colors) {
    S.lanes.forEach((lane, index) => {
      if (index % 2 === 0) { ctx.fillStyle = colors.panel; ctx.fillRect(0, lanesTop + index * LANE, frame.width, LANE); }
    });
    clipped(ctx, frame, () => {
      axis(ctx, frame, colors, opsTop + OPS, true);
      drawFaults(ctx, frame, colors);
      for (const [lo, hi, lane] of S.noise) if (lane >= 0) {
        ctx.fillStyle = colors.candidate; ctx.globalAlpha = 0.5;
        ctx.fillRect(frame.x(lo), lanesTop + lane * LANE + 1, Math.max(2, frame.x(hi) - frame.x(lo)), 3); ctx.globalAlpha = 1;
      }
      S.lanes.forEach((lane, index) => { drawTroubles(ctx, frame, colors, lane, lanesTop + index * LANE); drawRoles(ctx, frame, colors, lane, lanesTop + index * LANE); });
      drawMarks(ctx, frame, colors);
      drawProofs(ctx, frame, colors);
      drawOps(ctx, frame, colors);
      ctx.font = "11px system-ui, sans-serif";
      D.phases.forEach(([t, name], index) => {
        const x = frame.x(t), next = index + 1 < D.phases.length ? frame.x(D.phases[index + 1][0]) : frame.width - RIGHT;
        ctx.strokeStyle = colors.muted; ctx.setLineDash([2, 3]); ctx.beginPath(); ctx.moveTo(x, 22); ctx.lineTo(x, opsTop + OPS); ctx.stroke(); ctx.setLineDash([]);
        ctx.fillStyle = colors.muted;
        const left = Math.max(x, LEFT) + 4;
        label(ctx, name, left, 29, next - left - 2);
      });
    });
    gutter(ctx, frame, colors);
  },
  hit(x, y, frame) {
    if (x < LEFT) return null;
    const t = frame.t(x);
    if (y < lanesTop) {
      const fault = S.faults.find((f) => Math.floor((y - TOP) / FAULT_ROW) === faultRows.row.get(f) && t >= f.span[0] && t <= (f.span[3] ?? END));
      if (!fault) return null;
      if (fault.count) return { text: `${fault.text}\n${seconds(fault.span[0])} … ${seconds(fault.span[3])}` };
      const held = fault.span[3] === null ? "" : `, healed ${seconds(fault.span[3])}`;
      return { text: `${fault.text}\n${fault.outcome}${fault.why ? " (" + fault.why + ")" : ""}: asked ${seconds(fault.span[0])}, in force ${seconds(fault.span[1])}${held}` };
    }
    if (y >= opsTop) return hitOps(x, y, frame);
    const lane = Math.floor((y - lanesTop) / LANE);
    let best = null, distance = 9;
    for (const mark of visibleMarks(frame)) {
      const away = Math.abs(frame.x(mark[0]) - x);
      if (mark[1] === lane && away <= distance) { best = mark; distance = away; }
    }
    if (best) return { text: `${best[5]}\n${seconds(best[0])} · event ${best[4]}`, seq: best[4] };
    const found = S.lanes[lane];
    if (!found) return null;
    const lines = found.troubles.filter((s) => t >= s[0] && t <= s[1]).map((s) => s[3] + (s[4] ? "" : " (not confirmed)") + `, ${seconds(s[0])} … ${seconds(s[1])}`);
    if (S.overview) { lines.unshift(found.node + ": " + stretchText(lane, t)); return { text: lines.join("\n") }; }
    const role = found.roles.find((s) => t >= s[0] && t <= s[1]);
    if (role) lines.unshift(`${found.node}: ${role[5]}, term ${role[3]}, incarnation ${role[4]}\n${seconds(role[0])} … ${seconds(role[1])}`);
    else lines.unshift(`${found.node}: not known`);
    return { text: lines.join("\n") };
  },
});

function stretchText(lane, t) {
  const { width, roles } = D.overview, at = Math.floor(t / width) * 3;
  const [share, rest, term] = roles[lane].slice(at, at + 3);
  if (term === undefined || (!share && rest < 0)) return "not known";
  const words = [share ? `led ${share} % of the time` : "", rest >= 0 && share < 100 ? "else mostly " + D.roles[rest] : ""];
  return `${words.filter(Boolean).join(", ")}; up to term ${term}\n${seconds((at / 3) * width)} … ${seconds((at / 3 + 1) * width)}`;
}

function hitOps(x, y, frame) {
  const from = firstAt(opsStart, frame.lo - longestOp), till = firstAt(opsStart, frame.hi);
  if (till - from > 1500 || S.overview) return { text: "client operations, many a pixel: zoom in to see each" };
  const clients = Math.min(12, 1 + S.ops.reduce((most, op) => Math.max(most, op[3]), 0)), row = (OPS - 8) / clients;
  const client = Math.floor((y - opsTop - 2) / row);
  for (let i = from; i < till; i++) {
    const [asked, answered, status, who, f] = S.ops[i];
    if (who % clients !== client || x < frame.x(asked) - 2 || x > frame.x(answered) + 2) continue;
    const words = ["ok", "certainly did not happen", "outcome unknown", "never answered"];
    return { text: `client ${who}: ${f}, ${words[status]}\n${seconds(asked)}, took ${span(answered - asked)}` };
  }
  return null;
}

const overview = {
  whole: true,
  draw(ctx, frame, colors) {
    const high = (frame.height - 8) / Math.max(1, D.lanes.length);
    ctx.fillStyle = colors.muted; ctx.fillText("whole", 10, frame.height / 2 - 7); ctx.fillText("run", 10, frame.height / 2 + 8);
    D.lanes.forEach((lane, index) => {
      for (const [lo, hi, kind] of lane.troubles) {
        ctx.fillStyle = colors[kind in colors ? kind : "other"]; ctx.globalAlpha = 0.3;
        ctx.fillRect(frame.x(lo), 4 + index * high, Math.max(1, (hi - lo) * frame.scale), high - 1); ctx.globalAlpha = 1;
      }
      for (const [lo, hi, role, , , , share] of lane.roles) {
        if (role === 0) continue;
        const bar = high * 0.6 * ledPart(share);
        ctx.fillStyle = colors[ROLE_COLOR[role]];
        ctx.fillRect(frame.x(lo), 4 + index * high + (high - bar) / 2, Math.max(1, (hi - lo) * frame.scale), bar);
      }
    });
    ctx.fillStyle = colors.proof;
    for (const proof of D.proofs) if (!proof.excused) ctx.fillRect(frame.x(proof.t) - 1, 0, 2, frame.height);
    const a = frame.x(view.lo), b = frame.x(view.hi);
    ctx.fillStyle = colors.muted; ctx.globalAlpha = 0.25;
    ctx.fillRect(LEFT, 0, a - LEFT, frame.height); ctx.fillRect(b, 0, frame.width - RIGHT - b, frame.height);
    ctx.globalAlpha = 1; ctx.strokeStyle = colors.text; ctx.strokeRect(a + 0.5, 0.5, Math.max(2, b - a - 1), frame.height - 1);
  },
};
register("overview", overview);
