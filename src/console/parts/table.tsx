import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Link, useLocation } from "wouter-preact";
import { useKeys } from "../app/keyboard.ts";

export interface Column<Row> {
  readonly title: string;
  cell(row: Row): ComponentChildren;
  /** Right-aligned numbers. */
  readonly isNumber?: true;
  /** Left out on narrow screens. */
  readonly isWide?: true;
}

interface TableProps<Row> {
  /** For screen readers. */
  readonly label: string;
  readonly rows: readonly Row[];
  readonly columns: readonly Column<Row>[];
  keyOf(row: Row): string | number;
  /** The page of a row; its first cell links to it, and Enter opens it. */
  hrefOf?(row: Row): string;
  /** Keys for the selected row, such as `r`. */
  readonly keys?: Readonly<Record<string, (row: Row) => void>>;
}

/** Rows of 32 px. `j` and `k` move the selection, Enter opens it. */
export function Table<Row>({ label, rows, columns, keyOf, hrefOf, keys = {} }: TableProps<Row>) {
  const [, navigate] = useLocation();
  const [selected, setSelected] = useState<string | number | null>(null);
  const body = useRef<HTMLTableSectionElement>(null);
  const index = rows.findIndex((row) => keyOf(row) === selected);
  const row = rows[index];

  const select = (next: number) => {
    const chosen = rows[Math.min(Math.max(next, 0), rows.length - 1)];
    if (chosen !== undefined) setSelected(keyOf(chosen));
  };
  useKeys({
    j: () => select(index + 1),
    k: () => select(index - 1),
    ...(hrefOf === undefined ? {} : { Enter: () => row !== undefined && navigate(hrefOf(row)) }),
    ...Object.fromEntries(Object.entries(keys).map(([key, run]) => [key, () => row !== undefined && run(row)])),
  });
  useEffect(() => {
    body.current?.children[index]?.scrollIntoView({ block: "nearest" });
  }, [index]);

  return (
    <div class="table">
      <table aria-label={label}>
        <thead>
          <tr>
            {columns.map(({ title, isNumber, isWide }) => (
              <th key={title} scope="col" class={classOf(isNumber, isWide)}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body}>
          {rows.map((each, place) => (
            <tr key={keyOf(each)} aria-selected={place === index}>
              {columns.map(({ title, cell, isNumber, isWide }, column) => (
                <td key={title} class={classOf(isNumber, isWide)}>
                  {column === 0 && hrefOf !== undefined ? (
                    <Link href={hrefOf(each)} class="row-link">
                      {cell(each)}
                    </Link>
                  ) : (
                    cell(each)
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function classOf(isNumber: true | undefined, isWide: true | undefined): string {
  return `${isNumber ? "number " : ""}${isWide ? "wide" : ""}`;
}
