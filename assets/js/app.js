// The script of every page: keys, copying, theme, relative times, and the live
// refresh. Pages work without it; what it adds is speed. It writes no HTML: what
// changes comes from the server, which draws the same page again.
(() => {
  "use strict";
  const $ = (sel, root = document) => root.querySelector(sel);
  const $$ = (sel, root = document) => [...root.querySelectorAll(sel)];
  const say = (text) => { $("#announce").textContent = text; };

  // --- times ---------------------------------------------------------------
  const span = (s) => s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} min` : s < 86400 ? `${Math.floor(s / 3600)} h`
    : s < 60 * 86400 ? `${Math.floor(s / 86400)} d` : `${Math.floor(s / (30 * 86400))} months`;
  const ago = (ms) => {
    const s = Math.floor((Date.now() - ms) / 1000);
    return s < -1 ? `in ${span(-s)}` : s < 5 ? "just now" : `${span(s)} ago`;
  };
  const tick = () => { for (const t of $$("time[data-at]")) { const a = ago(+t.dataset.at); if (t.textContent !== a) t.textContent = a; } };
  setInterval(tick, 5000);

  // --- copying -------------------------------------------------------------
  const copy = async (button) => {
    const from = $(button.dataset.copy);
    if (!from) return;
    await navigator.clipboard.writeText(from.value ?? from.textContent);
    const was = button.textContent;
    button.textContent = "Copied";
    say("Copied to the clipboard");
    setTimeout(() => { button.textContent = was; }, 1600);
  };

  // --- forms ---------------------------------------------------------------
  document.addEventListener("change", (e) => {
    if (e.target.matches("[data-apply]")) e.target.form.requestSubmit();
  });
  // Empty fields of a filter do not belong into the address.
  document.addEventListener("submit", (e) => {
    const form = e.target;
    if (form.method === "get") for (const f of $$("input[name], select[name]", form)) if (f.value === "") f.disabled = true;
    if (form.matches("[data-theme-form]")) theme(e, form);
    if (form.dataset.confirm && !form.dataset.confirmed) ask(e, form);
  });
  window.addEventListener("pageshow", () => { for (const f of $$("form input[name]:disabled, form select[name]:disabled")) f.disabled = false; });

  const ask = (e, form) => {
    e.preventDefault();
    e.stopPropagation();
    const box = $("#confirm"), by = e.submitter;
    $("#confirm-text").textContent = form.dataset.confirm;
    box.returnValue = "no";
    box.showModal();
    box.addEventListener("close", () => {
      if (box.returnValue !== "yes") { by?.focus(); return; }
      form.dataset.confirmed = "yes";
      form.requestSubmit(by);
      delete form.dataset.confirmed;
    }, { once: true });
  };

  const theme = (e, form) => {
    e.preventDefault();
    const body = new URLSearchParams(new FormData(form));
    const chosen = body.get("theme") === "system" ? "" : body.get("theme");
    fetch(form.action, { method: "POST", body, redirect: "manual" }).then(() => {
      document.documentElement.dataset.theme = chosen;
      say(`Theme: ${chosen || "system"}`);
      return htmx.ajax("GET", location.href, { target: ".theme", select: ".theme", swap: "outerHTML" });
    }).then(() => $(".theme button")?.focus());
  };

  // --- keys ----------------------------------------------------------------
  const rows = () => $$("[data-row]").filter((r) => r.offsetParent !== null);
  let row = -1, wantsGo = 0;
  const link = (r) => r.matches("a, button, summary") ? r : $("[data-open], a, summary", r);
  const move = (by) => {
    const all = rows();
    if (!all.length) return;
    const now = all.findIndex((r) => r.contains(document.activeElement));
    row = Math.max(0, Math.min(all.length - 1, (now >= 0 ? now : row) + by));
    const to = link(all[row]);
    to?.focus({ preventScroll: true });
    all[row].scrollIntoView({ block: "nearest" });
  };
  const typing = (el) => el.matches("input:not([type=checkbox]), textarea, select, [contenteditable]");
  const keys = () => { const d = $("#keys"); if (d.open) d.close(); else d.showModal(); };
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const el = document.activeElement ?? document.body;
    if (e.key === "Escape" && typing(el)) { el.blur(); return; }
    if (typing(el)) return;
    if ($("#confirm").open) return;
    if (e.key === "?") { e.preventDefault(); keys(); return; }
    if ($("#keys").open) return;
    if (Date.now() - wantsGo < 1200) {
      wantsGo = 0;
      const to = $(`[data-go="${CSS.escape(e.key)}"]`);
      if (to) { e.preventDefault(); to.click(); }
      return;
    }
    switch (e.key) {
      case "g": wantsGo = Date.now(); return;
      case "/": e.preventDefault(); ($("main [data-search]") ?? $("#jump")).focus(); return;
      case "j": e.preventDefault(); move(1); return;
      case "k": e.preventDefault(); move(-1); return;
    }
    const own = e.key.length === 1 ? $(`[data-key="${CSS.escape(e.key)}"]`) : null;
    if (own) { e.preventDefault(); own.focus({ preventScroll: true }); own.click(); }
  });
  document.addEventListener("click", (e) => {
    const c = e.target.closest("[data-copy]");
    if (c) copy(c).catch(() => say("Copying was not allowed"));
    if (e.target.closest("[data-open-keys]")) keys();
    const mark = e.target.closest("[data-href]"); // marks of a chart
    if (mark) location.href = mark.dataset.href;
  });

  // --- charts --------------------------------------------------------------
  // What a part of a picture is stands under it while it is pointed at.
  const explain = (e) => {
    const part = e.target.closest?.("[data-explain]"), card = part?.closest(".card"), line = card && $("[data-explained]", card);
    if (line) line.textContent = part.dataset.explain;
  };
  document.addEventListener("pointerover", explain);
  document.addEventListener("focusin", explain);

  // --- live ----------------------------------------------------------------
  // Events say that something changed, never what to draw. The page is asked
  // for again and its live parts are morphed into place, which keeps scroll,
  // focus and what is unfolded. Bursts are gathered.
  const words = {
    "turn.finished": "A turn finished", "fold": "A fold was made", "degrade": "A step down was recorded",
    "rollout": "The rollout changed", "kv.state": "The KV cache changed", "config": "The settings changed",
  };
  const gather = 400, quiet = 4000;
  let timer = 0, said = 0, busy = false, again = false;
  const refresh = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const parts = $$("[data-live]");
      if (parts.length) {
        const answer = await fetch(location.href, { headers: { "X-Holdfast-Live": "1" } });
        if (answer.ok) {
          const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
          for (const part of parts) {
            const next = fresh.getElementById(part.id);
            if (next && next.outerHTML !== part.outerHTML) {
              await htmx.swap({ text: next.outerHTML, target: part, swap: "outerMorph", sourceElement: part });
            }
          }
          const pill = fresh.getElementById("state");
          if (pill) $("#state").replaceWith(pill);
        }
      }
      tick();
      document.body.dataset.refreshed = String(1 + Number(document.body.dataset.refreshed ?? 0));
    } finally {
      busy = false;
      if (again) { again = false; schedule(); }
    }
  };
  const schedule = () => { clearTimeout(timer); timer = setTimeout(refresh, gather); };
  for (const [name, text] of Object.entries(words)) {
    document.addEventListener(name, () => {
      schedule();
      if (Date.now() - said > quiet) { said = Date.now(); say(text); }
    });
  }
  document.addEventListener("turn.started", schedule);
  document.addEventListener("htmx:sse:after:connection", () => { document.body.dataset.stream = "open"; });
})();
