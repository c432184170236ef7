// Runs before the first paint, so that the chosen theme never flashes. The policy allows no inline script.
try {
  const theme = localStorage.getItem("toolwire.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is blocked: the system's theme holds.
}
