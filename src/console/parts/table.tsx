import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Link, useLocation } from "wouter-preact";
import { useKeys } from "../app/keyboard.ts";
import { leaveAt, openedRow } from "../app/scroll.ts";
import { none } from "./format.ts";

export interface Column<Row> {
  readonly title: string;
  cell(row: Row): ComponentChildren;
  /** Right-aligned numbers. */
  readonly isNumber?: true;
}

interface TableProps<Row> {
  /** For screen readers. */
  readonly label: string;
  readonly rows: readonly Row[];
  readonly columns: readonly Column<Row>[];
  keyOf(row: Row): string | number;
  /** The page of a row; its first cell links to it, and Enter opens it. Back selects the row. */
  hrefOf?(row: Row): string;
  /** Keys for the selected row, such as `r`. */
  readonly keys?: Readonly<Record<string, (row: Row) => void>>;
}

/** A table of the page, for keys: one of them has the selection. */
interface Selectable {
  readonly element: HTMLElement | null;
  readonly count: number;
  /** -1: the selection is elsewhere. */
  readonly index: number;
  /** -1: gives it up. */
  select(index: number): void;
}

const tables = new Set<{ readonly current: Selectable }>();

const inOrder = (): Selectable[] =>
  [...tables]
    .map(({ current }) => current)
    .filter(({ count }) => count > 0)
    .sort((a, b) =>
      a.element !== null && b.element !== null && follows(b.element, a.element) ? -1 : 1,
    );

const follows = (later: HTMLElement, earlier: HTMLElement): boolean =>
  (earlier.compareDocumentPosition(later) & Node.DOCUMENT_POSITION_FOLLOWING) !== 0;

/** Moves the selection by one row, from the end of a table to the next one. */
function move(step: 1 | -1): void {
  const all = inOrder();
  const at = all.findIndex(({ index }) => index !== -1);
  const table = all[at];
  const next = (table?.index ?? -1) + step;
  const neighbor = all[at + step];
  if (table === undefined) all[0]?.select(0);
  else if (next >= 0 && next < table.count) table.select(next);
  else if (neighbor !== undefined) {
    table.select(-1);
    neighbor.select(step === 1 ? 0 : neighbor.count - 1);
  }
}

/**
 * Rows of 32 px. `j` and `k` move the selection, also between the tables of a page; Enter opens it.
 */
export function Table<Row>({ label, rows, columns, keyOf, hrefOf, keys = {} }: TableProps<Row>) {
  const [, navigate] = useLocation();
  const [selected, setSelected] = useState(() => openedRow(label));
  const body = useRef<HTMLTableSectionElement>(null);
  const last = useRef(-1);
  const found = rows.findIndex((row) => keyOf(row) === selected);
  // A row that leaves, such as a retried one, hands the selection to the one in its place.
  const index = found === -1 && selected !== null ? Math.min(last.current, rows.length - 1) : found;
  last.current = index;
  const row = rows[index];
  useLayoutEffect(() => {
    if (found === -1 && row !== undefined) setSelected(keyOf(row));
  });

  const self = useRef<Selectable>(null as never);
  self.current = {
    // Null while it is rendered for the first time.
    get element() {
      return body.current;
    },
    count: rows.length,
    index,
    select(next) {
      const chosen = rows[next];
      setSelected(chosen === undefined ? null : keyOf(chosen));
    },
  };
  useLayoutEffect(() => {
    tables.add(self);
    return () => void tables.delete(self);
  }, []);
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    // Without a selected row, Enter belongs to the link or button that has the focus.
    ...(row === undefined || hrefOf === undefined
      ? {}
      : {
          Enter: () => {
            leaveAt(label, keyOf(row));
            navigate(hrefOf(row));
          },
        }),
    ...(row === undefined
      ? {}
      : Object.fromEntries(Object.entries(keys).map(([key, press]) => [key, () => press(row)]))),
  });
  useEffect(() => {
    body.current?.children[index]?.scrollIntoView({ block: "nearest" });
  }, [index]);

  return (
    <div class="table">
      <table aria-label={label}>
        <thead>
          <tr>
            {columns.map(({ title, isNumber }) => (
              <th key={title} scope="col" class={isNumber && "number"}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body}>
          {rows.map((each, place) => (
            <tr key={keyOf(each)} aria-selected={place === index}>
              {columns.map(({ title, cell, isNumber }, column) => {
                const content = cell(each);
                return (
                  // On a narrow screen a row is a block: numbers need their title there, and
                  // nothing needs no place.
                  <td
                    key={title}
                    class={`${isNumber ? "number" : ""}${content === none ? " none" : ""}`}
                    data-title={isNumber && title}
                  >
                    {column === 0 && hrefOf !== undefined ? (
                      <Link
                        href={hrefOf(each)}
                        class="row-link"
                        onClick={() => leaveAt(label, keyOf(each))}
                      >
                        {content}
                      </Link>
                    ) : (
                      content
                    )}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
