// Completion of keywords, tables and columns: Ctrl+Space or typing opens it, Tab or Enter takes an entry.

const KEYWORDS =
  "select from where group by order by having limit join left join on as and or not in is null between like case when then " +
  "else end distinct count sum avg min max cast with union all explain describe show tables version as of timestamp as of";
const ENTRIES_MAX = 10;
const WORD = /[\w.`]+$/;

export function attachCompletion(input, list, namesPath) {
  const keywords = [...new Set(KEYWORDS.split(" "))];
  let tables = [];
  let chosen = -1;

  fetch(namesPath)
    .then((response) => response.json())
    .then((answer) => {
      tables = answer.tables;
    })
    .catch(() => {
      // Without names only keywords are completed.
    });

  function candidates(word) {
    const part = word.toLowerCase();
    const text = input.value.toLowerCase();
    const mentioned = tables.filter((table) => text.includes(table.name.toLowerCase()));
    const columns = (mentioned.length ? mentioned : tables).flatMap((table) => table.columns);
    const names = [...tables.map((table) => table.name), ...columns, ...keywords];
    return [...new Set(names)].filter((name) => name.toLowerCase().startsWith(part) && name !== word).slice(0, ENTRIES_MAX);
  }

  function wordBefore() {
    return input.value.slice(0, input.selectionStart).match(WORD)?.[0] ?? "";
  }

  function open(isRequested) {
    const word = wordBefore();
    const names = word || isRequested ? candidates(word) : [];
    list.replaceChildren(
      ...names.map((name, place) => {
        const entry = document.createElement("li");
        entry.textContent = name;
        entry.id = `completion-${place}`;
        entry.setAttribute("role", "option");
        entry.addEventListener("mousedown", (event) => {
          event.preventDefault();
          take(name);
        });
        return entry;
      }),
    );
    list.hidden = !names.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    choose(-1);
  }

  function close() {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function choose(place) {
    chosen = place;
    [...list.children].forEach((entry, at) => entry.setAttribute("aria-selected", String(at === place)));
    if (place >= 0) input.setAttribute("aria-activedescendant", `completion-${place}`);
    else input.removeAttribute("aria-activedescendant");
  }

  function take(name) {
    const end = input.selectionStart;
    input.setRangeText(name, end - wordBefore().length, end, "end");
    close();
  }

  input.addEventListener("input", () => open(false));
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      open(true);
      return;
    }
    if (list.hidden) return;
    const count = list.children.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(event.key === "ArrowDown" ? (chosen + 1) % count : (chosen + count - (chosen < 0 ? 0 : 1)) % count);
    } else if (event.key === "Tab" || (event.key === "Enter" && chosen >= 0 && !event.ctrlKey && !event.metaKey)) {
      event.preventDefault();
      take(list.children[Math.max(0, chosen)].textContent);
    } else if (event.key === "Escape") {
      close();
    }
  });
}
