"""The frame of the provider's pages: one document without anything to load, light and dark, for any width."""

from __future__ import annotations

_STYLE = """
:root { color-scheme: light dark; }
:root[data-theme=light] { color-scheme: light; }
:root[data-theme=dark] { color-scheme: dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.2rem 1.6rem;
  background: light-dark(#fff, #0d1117); color: light-dark(#1a202c, #d8dee9); }
h1 { font-size: 1.35rem; overflow-wrap: anywhere; margin: .4rem 0; }
a { color: light-dark(#0b5cad, #79b8ff); text-decoration: none; } a:hover { text-decoration: underline; }
p { max-width: 60rem; margin: .5rem 0; }
small { display: block; color: light-dark(#5a6472, #95a1b1); font-size: .82rem; }
code { font-size: .92em; }
form { display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: center; margin: .8rem 0; }
input, button { font: inherit; padding: .15rem .45rem; } input { max-width: 100%; box-sizing: border-box; }
table { border-collapse: collapse; margin: .6rem 0; }
td, th { border-bottom: 1px solid light-dark(#dde3ea, #30363d); padding: .35rem .8rem .35rem 0; text-align: left;
  vertical-align: top; overflow-wrap: anywhere; }
th { color: light-dark(#5a6472, #95a1b1); font-weight: 600; white-space: nowrap; }
td { font-variant-numeric: tabular-nums; }
td[data-t=why] { min-width: 18rem; } td[data-t=run] { min-width: 15rem; }
td[data-t=model] { min-width: 14rem; } td[data-t=model] small { max-width: 34rem; }
td[data-t=window], td[data-t=rows], td[data-t=took], td[data-t=applied], td[data-t^="applied u"], td[data-t^=last] {
  white-space: nowrap; }
.chips { display: flex; flex-wrap: wrap; gap: .4rem; align-items: center; }
.n { display: inline-block; border: 1px solid; border-radius: .8rem; padding: 0 .6rem; white-space: nowrap; }
.n.chosen { font-weight: 700; border-width: 2px; }
.applied { color: light-dark(#1a7f37, #4ac26b); } .pending { color: light-dark(#57606a, #a5afbb); }
.running { color: light-dark(#0b5cad, #79b8ff); } .blocked { color: light-dark(#8a5a00, #e3b341); }
.error { color: light-dark(#b42318, #ff8078); }
@media (max-width: 800px) {
  body { margin: .8rem; } thead { display: none; } table, tbody, tr, td { display: block; min-width: 0 !important; }
  tr { border-bottom: 1px solid light-dark(#b8c0cc, #4a525c); padding: .4rem 0; }
  td { border: 0; padding: .1rem 0; white-space: normal !important; } td:empty { display: none; }
  td::before { content: attr(data-t) " "; color: light-dark(#5a6472, #95a1b1); font-size: .82rem; }
}
"""
# Airflow keeps the theme that somebody chose in the browser, and tells its frames when it changes. Inside of its frame
# a page may not turn the whole window to another address: a link of the outer document may.
_SCRIPT = """
const themed = () => {
  try { document.documentElement.dataset.theme = localStorage.getItem("theme") ?? ""; } catch {}
};
themed();
addEventListener("storage", themed);
addEventListener("click", (event) => {
  const link = event.target.closest?.("a.out");
  if (!link || parent === window || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const outer = parent.document.createElement("a");
  outer.href = link.href;
  outer.click();
});
"""


def document(title: str, body: str) -> str:
    """Return a whole document.

    Args:
        title: HTML.
        body: HTML.
    """
    head = (
        f"<meta charset='utf-8'><meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{title}</title><style>{_STYLE}</style><script>{_SCRIPT}</script>"
    )
    return f"<!doctype html><html lang='en'><head>{head}</head><body>{body}</body></html>"
