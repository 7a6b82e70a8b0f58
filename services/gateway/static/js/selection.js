// Enables "Compare selected" when two or more evaluations are selected.
// Without JavaScript the button always sends the selection, and the comparison says what is missing.

const form = document.getElementById("selection");
const button = document.getElementById("compare");

function update() {
  const count = form.querySelectorAll("input[name=evaluation]:checked").length;
  button.disabled = count < 2;
  button.textContent = count < 2 ? "Select two or more to compare" : `Compare ${count} selected`;
}

form?.addEventListener("change", update);
if (button) update();
