// Enables "Compare selected" when two or more evaluations are selected.
// Without JavaScript the button always sends the selection, and the comparison says what is missing.

/** Say on the page's button how many evaluations are selected: a box may stand for several. */
export function update() {
  const button = document.getElementById("compare");
  if (!button) return;
  const boxes = [...button.form.querySelectorAll("input[name=evaluation]:checked")];
  const count = new Set(boxes.flatMap((box) => box.value.split(","))).size;
  button.disabled = count < 2;
  button.textContent = count < 2 ? "Select two or more to compare" : `Compare ${count} selected`;
}

document.addEventListener("change", update);
// A page that comes back from the browser's history has its boxes as they were left.
addEventListener("pageshow", update);
update();
