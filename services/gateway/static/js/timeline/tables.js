/** The longest spans of the window as a table: the timeline for who does not see it. */

import { duration, shortened, startOf, titleOf } from "./format.js";
import { longestSpans } from "./data/selection.js";

export const MOST = 50;
const NAME_LETTERS = 120;
const COLUMNS = [
  ["name", "Name", (row) => row.name],
  ["lane", "Lane", (row) => row.lane],
  ["depth", "Depth", (row) => row.depth],
  ["start", "Start", (row) => row.start],
  ["duration", "Duration", (row) => row.duration],
];

export class WindowTable {
  /** @param {HTMLTableElement} table @param {(id: number) => void} onSelect */
  constructor(table, onSelect) {
    this.table = table;
    this.onSelect = onSelect;
    this.sort = { column: "duration", isDescending: true };
    this.rows = [];
    this.#makeHead();
  }

  #makeHead() {
    const row = this.table.createTHead().insertRow();
    for (const [column, title] of COLUMNS) {
      const cell = document.createElement("th");
      cell.scope = "col";
      const button = Object.assign(document.createElement("button"), { type: "button", className: "plain", textContent: title });
      button.addEventListener("click", () => this.#sortBy(column));
      cell.append(button);
      cell.dataset.column = column;
      row.append(cell);
    }
    this.body = this.table.createTBody();
  }

  #sortBy(column) {
    const isSame = this.sort.column === column;
    this.sort = { column, isDescending: isSame ? !this.sort.isDescending : column === "duration" };
    this.#show();
  }

  /** Show the longest spans of a window. */
  update(store, lanes, window, selected) {
    const isSpan = (row) => lanes.get(row.lane) && lanes.get(row.lane).group !== "counter";
    const places = longestSpans([...store.rows.values()].filter(isSpan), window, MOST);
    this.selected = selected;
    this.rows = places.map(({ row, span }) => ({
      id: row.id[span], name: titleOf(store, { row, span }), lane: lanes.get(row.lane).title, depth: row.depth,
      start: row.start[span], startText: startOf(row, span), duration: row.duration[span], count: row.count[span],
    }));
    this.#show();
  }

  #show() {
    const { column, isDescending } = this.sort;
    const value = COLUMNS.find(([name]) => name === column)[2];
    const order = (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (isDescending ? -1 : 1);
    for (const cell of this.table.tHead.rows[0].cells) {
      const direction = isDescending ? "descending" : "ascending";
      cell.setAttribute("aria-sort", cell.dataset.column === column ? direction : "none");
    }
    this.body.replaceChildren(...[...this.rows].sort(order).map((row) => this.#rowOf(row)));
  }

  #rowOf(row) {
    const line = document.createElement("tr");
    if (row.id === this.selected) line.setAttribute("aria-current", "true");
    const name = Object.assign(document.createElement("button"), { type: "button", className: "link", textContent: shortened(row.name, NAME_LETTERS) });
    name.title = row.name.slice(0, 1000);
    name.addEventListener("click", () => this.onSelect(row.id));
    line.insertCell().append(name, row.count > 1 ? ` and ${row.count - 1} more` : "");
    for (const text of [row.lane, row.depth, row.startText, duration(row.duration)]) line.insertCell().textContent = text;
    for (const place of [2, 3, 4]) line.cells[place].className = "number";
    return line;
  }
}
