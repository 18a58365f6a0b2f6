// What the theme leaves out: names for its search, and tables that a keyboard can scroll.
window.addEventListener("load", () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  document.querySelector("#__search")?.setAttribute("aria-label", "Search");
  for (const scrolled of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset__table > table")) {
    if (scrolled.scrollWidth > scrolled.clientWidth) scrolled.tabIndex = 0;
  }
});
