// A long run: its overview as data to draw, and the details of a window out of side files. Pure: values in, values out.
const FILES_MAX = 16; // side files that a window may need before it is drawn as an overview

// The numbers of the side files that have something to say between two moments.
function neededFiles(files, lo, hi) {
  const out = [];
  files.forEach(([from, to], number) => { if (from <= hi && to >= lo) out.push(number); });
  return out;
}

// Roles and faults of the overview in the form of a short run's, but with a seventh value: the share of time led.
function expandOverview(data) {
  const { width, roles, faults } = data.overview;
  data.every = width;
  data.lanes.forEach((lane, index) => {
    const flat = roles[index];
    for (let i = 0; i < flat.length; i += 3) {
      const lo = (i / 3) * width, hi = Math.min(lo + width, data.end), [share, rest, term] = flat.slice(i, i + 3);
      if (rest >= 0 && share < 100) appendRole(lane.roles, lo, hi, rest, term, 0);
      if (share) appendRole(lane.roles, lo, hi, 2, term, share);
    }
  });
  const rows = [...new Set(faults.map((fault) => fault[0]))];
  data.faults = faults.map(([kind, color, lo, hi, count]) => ({
    kind, color, count, victims: count > 1 ? ["× " + count] : [], text: `${kind}: ${count}`, outcome: "installed", why: "", span: [lo, lo, hi, hi],
    row: Math.min(5, rows.indexOf(kind)),
  }));
}
function appendRole(roles, lo, hi, role, term, share) {
  const last = roles[roles.length - 1];
  if (last && last[1] === lo && last[2] === role && last[3] === term && last[6] === share) last[1] = hi;
  else roles.push([lo, hi, role, term, 0, "", share]);
}

// What is drawn of a window that is about `span` wide: all rows of these files, as a short run's are drawn.
function assembleDetails(data, chunks, span) {
  const rows = (kind) => chunks.flatMap((chunk) => chunk[kind] ?? []);
  const leading = new Set(data.details.leading), dropped = new Set(data.details.dropped);
  const lanes = data.nodes.map((node) => ({ node, roles: [], troubles: [] }));
  for (const [lane, from, to, role, term, incarnation, word] of rows("roles")) {
    const known = role >= 0 ? role : leading.has(word) ? 2 : ~role;
    if (to > from || known === 2) lanes[lane].roles.push([from, to, known, term, incarnation, word]);
  }
  for (const [lane, ...trouble] of rows("troubles")) lanes[lane].troubles.push(trouble);
  for (const lane of lanes) { lane.roles.sort(byTime); lane.troubles.sort(byTime); }
  const marks = rows("marks").filter((mark) => !dropped.has(mark[7]));
  const known = new Set(marks.map((mark) => mark[4]));
  for (const mark of data.marks) if (data.kinds[mark[2]] === "proof" && !known.has(mark[4])) marks.push(mark);
  marks.sort((a, b) => a[0] - b[0] || a[4] - b[4]);
  const ops = rows("ops").sort(byTime), faults = rows("faults").sort((a, b) => a.fault - b.fault);
  return { lanes, marks, ops, faults, noise: data.noise, span, every: 1e6, ...ratesOf(ops.filter((op) => op[2] < 3)) };
}
// Per second, from the second (in µs) in which the first of them ended: how many ended ok, fail, info.
function ratesOf(ended) {
  const seconds = ended.map((op) => Math.floor(op[1] / 1e6));
  const first = seconds.reduce((least, second) => Math.min(least, second), Infinity), rate = [];
  if (!seconds.length) return { rate, from: 0 };
  ended.forEach((op, index) => {
    while (rate.length <= seconds[index] - first) rate.push([0, 0, 0]);
    rate[seconds[index] - first][op[2]]++;
  });
  return { rate, from: first * 1e6 };
}
function byTime(a, b) { return a[0] - b[0]; }
