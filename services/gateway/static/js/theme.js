// Applies the stored theme before the page is painted, and lets its button change it.
// Loaded as a classic script in the head, so that no page flashes in the wrong theme.

(() => {
  const THEMES = ["auto", "light", "dark"];
  const KEY = "mlscope-theme";

  /** Return the stored theme; browsers without storage always say "auto". */
  function stored() {
    try {
      const theme = localStorage.getItem(KEY);
      return THEMES.includes(theme) ? theme : "auto";
    } catch {
      return "auto";
    }
  }

  function store(theme) {
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // The theme holds for this page only.
    }
  }

  function apply(theme) {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) button.textContent = `Theme: ${theme}`;
  }

  let current = stored();
  apply(current);

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    if (!button) return;
    button.hidden = false;
    apply(current);
    button.addEventListener("click", () => {
      current = THEMES[(THEMES.indexOf(current) + 1) % THEMES.length];
      store(current);
      apply(current);
      document.dispatchEvent(new CustomEvent("themechange", { detail: current }));
    });
  });
})();
