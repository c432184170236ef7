// Runs before the first paint, so that the chosen theme never flashes. The policy forbids inline scripts.
try {
  const theme = localStorage.getItem("toolwire.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is blocked: use the system's theme.
}
