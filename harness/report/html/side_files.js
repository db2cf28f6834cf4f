// Side files of a long run: loaded where the window is short enough, and what only its overview draws.
const loadedFiles = new Map(), askedFiles = new Set(), KEPT_FILES = 48, NO_FILES = " · overview: the folder of the details is missing";
let filesTimer = 0, assembled = null, filesMissing = false;

function loseFiles() {
  filesMissing = true;
  byId("missing").hidden = false;
  redraw();
}
window.dethroneDetails = (number, digest, rows) => {
  if (D.details.files[number]?.[2] !== digest) { loseFiles(); return; }
  loadedFiles.set(number, rows);
  for (const old of loadedFiles.keys()) {
    if (loadedFiles.size <= KEPT_FILES) break;
    loadedFiles.delete(old); askedFiles.delete(old);
  }
  redraw();
};
function askFile(number) {
  if (askedFiles.has(number)) return;
  askedFiles.add(number);
  const script = document.createElement("script");
  script.src = encodeURIComponent(D.details.folder) + "/" + String(number).padStart(4, "0") + ".js";
  script.addEventListener("error", loseFiles);
  script.addEventListener("load", () => script.remove());
  document.head.append(script);
}

choose = () => {
  const needed = neededFiles(D.details.files, view.lo, view.hi);
  clearTimeout(filesTimer);
  note = "";
  if (needed.length > FILES_MAX) note = filesMissing ? NO_FILES : " · overview: zoom in for details";
  else if (needed.every((number) => loadedFiles.has(number))) {
    const key = needed.join();
    if (!assembled || assembled.key !== key) {
      for (const number of needed) { const rows = loadedFiles.get(number); loadedFiles.delete(number); loadedFiles.set(number, rows); }
      assembled = { key, data: assembleDetails(D, needed.map((number) => loadedFiles.get(number)), view.hi - view.lo) };
    }
    if (S !== assembled.data) take(assembled.data);
    return;
  } else if (filesMissing) note = NO_FILES;
  else {
    note = " · overview: details are being loaded";
    filesTimer = setTimeout(() => needed.forEach(askFile), 100);
  }
  if (S !== D) take(D);
};

function bins(ctx, frame, values, every, paint) {
  values.forEach((value, index) => {
    const a = frame.x(index * every), b = frame.x((index + 1) * every);
    if (b >= LEFT && a <= frame.width) paint(value, a, Math.max(1, b - a));
  });
}
register("elections", {
  draw(ctx, frame, colors) {
    const { elections, minute } = D.overview, tall = frame.height - 18;
    const most = elections.reduce((top, count) => Math.max(top, count), 1);
    clipped(ctx, frame, () => {
      axis(ctx, frame, colors, frame.height, false);
      ctx.fillStyle = colors.leader;
      bins(ctx, frame, elections, minute, (count, x, wide) => ctx.fillRect(x, frame.height - 4 - (count / most) * tall, Math.max(1, wide - 0.5), (count / most) * tall));
    });
    side(ctx, frame, colors, [[14, String(most)], [frame.height - 4, "0"]]);
  },
  hit(x, _y, frame) {
    const { elections, minute } = D.overview, index = Math.floor(frame.t(x) / minute);
    return x < LEFT || elections[index] === undefined ? null : { text: `${elections[index]} elections from ${seconds(index * minute, 0)} on, in ${span(minute)}` };
  },
});
register("availability", {
  draw(ctx, frame, colors) {
    const tall = frame.height - 18;
    clipped(ctx, frame, () => {
      axis(ctx, frame, colors, frame.height, false);
      bins(ctx, frame, D.rate, D.every, ([ok, fail, info], x, wide) => {
        const all = ok + fail + info;
        if (!all) return;
        ctx.fillStyle = colors.info; ctx.fillRect(x, 14, wide, tall);
        ctx.fillStyle = colors.ok; ctx.fillRect(x, 14 + tall * (1 - ok / all), wide, (tall * ok) / all);
      });
    });
    side(ctx, frame, colors, [[14, "100 %"], [frame.height - 4, "0 %"]]);
  },
  hit(x, _y, frame) {
    const bin = x < LEFT ? null : D.rate[Math.floor(frame.t(x) / D.every)];
    if (!bin) return null;
    const all = bin[0] + bin[1] + bin[2];
    return { text: all ? `${((bin[0] * 100) / all).toFixed(2)} % of ${all} operations ok in ${span(D.every)}` : "no operation ended here" };
  },
});

if (!CLIENTS) for (const element of document.querySelectorAll(".clients")) element.style.display = "none";
if (D.details.files.length) askFile(0); // is the folder there?
