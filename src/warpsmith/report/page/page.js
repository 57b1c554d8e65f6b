"use strict";
(() => {
  const table = document.getElementById("tasks");
  if (!table) return;
  const body = table.tBodies[0], words = document.getElementById("words"), status = document.getElementById("status");
  const level = document.getElementById("level"), whose = document.getElementById("whose"), count = document.getElementById("count");
  const filter = () => {
    const wanted = words.value.toLowerCase();
    let shown = 0;
    for (const row of body.rows) {
      const fits = (!wanted || row.textContent.toLowerCase().includes(wanted)) &&
        (!status.value || row.dataset.status === status.value) && (!level.value || row.dataset.level === level.value) &&
        (!whose.value || row.dataset.whose === whose.value);
      row.hidden = !fits;
      shown += fits;
    }
    count.textContent = `${shown} of ${body.rows.length}`;
  };
  for (const element of [words, status, level, whose]) element.addEventListener("input", filter);
  table.tHead.addEventListener("click", (event) => {
    const head = event.target.closest("th");
    if (!head) return;
    const down = head.getAttribute("aria-sort") === "ascending", at = head.cellIndex;
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (row) => row.cells[at].dataset.v ?? row.cells[at].textContent;
    const rows = [...body.rows].sort((a, b) => {
      const x = key(a), y = key(b);
      if (x === "" || y === "") return (x === "") - (y === "");
      const order = head.classList.contains("num") ? x - y : x.localeCompare(y, undefined, {numeric: true});
      return down ? -order : order;
    });
    body.append(...rows);
  });
  const open = () => {
    const id = decodeURIComponent(location.hash.slice(1)), found = id && document.getElementById(id);
    if (found && found.tagName === "DETAILS") { found.open = true; found.scrollIntoView(); }
  };
  addEventListener("hashchange", open);
  filter();
  open();
})();
