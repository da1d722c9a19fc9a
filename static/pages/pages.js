// Confirm before harm, and copy to the clipboard. Everything else is plain HTML and htmx.
document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (question && !window.confirm(question)) event.preventDefault();
});
document.addEventListener("click", async (event) => {
  const source = event.target.dataset.copy;
  if (!source) return;
  await navigator.clipboard.writeText(document.querySelector(source).textContent);
  event.target.textContent = "Copied";
});
document.addEventListener("change", (event) => {
  if (event.target.name === "accelerator") showAccelerator();
});
function showAccelerator() {
  const part = document.querySelector("#gpu-part");
  if (part) part.hidden = document.querySelector("[name=accelerator]").value !== "gpu";
}
document.addEventListener("DOMContentLoaded", showAccelerator);
