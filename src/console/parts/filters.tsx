import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Status } from "./status.tsx";

export function Filters({ children }: { children: ComponentChildren }) {
  return (
    <search>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        {children}
      </form>
    </search>
  );
}

interface FieldProps {
  readonly label: string;
  readonly value: string | undefined;
  change(value: string): void;
}

/** Reports what was typed once the typing pauses, or at Enter. */
export function TextFilter({ label, value = "", change, placeholder }: FieldProps & { readonly placeholder?: string }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return undefined;
    const timer = setTimeout(() => change(text), 300);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <label class="filter">
      <span>{label}</span>
      <input
        type="search"
        value={text}
        placeholder={placeholder}
        spellcheck={false}
        autocomplete="off"
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={({ key }) => key === "Enter" && change(text)}
      />
    </label>
  );
}

/** A moment in the viewer's zone; the value is ISO 8601 in UTC, as the API takes it. */
export function TimeFilter({ label, value, change }: FieldProps) {
  return (
    <label class="filter">
      <span>{label}</span>
      <input
        type="datetime-local"
        value={localTime(value)}
        onChange={({ currentTarget: { value: local } }) => change(local === "" ? "" : new Date(local).toISOString())}
      />
    </label>
  );
}

/** Empty when it is not a time, such as one that somebody typed into the URL. */
function localTime(value: string | undefined): string {
  const at = Date.parse(value ?? "");
  if (Number.isNaN(at)) return "";
  return new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** The empty choice means any. */
export function ChoiceFilter({
  label,
  value = "",
  change,
  choices,
  any = "any",
}: FieldProps & { readonly choices: readonly string[]; readonly any?: string }) {
  return (
    <label class="filter">
      <span>{label}</span>
      <select value={value} onChange={({ currentTarget }) => change(currentTarget.value)}>
        <option value="">{any}</option>
        {choices.map((choice) => (
          <option key={choice} value={choice}>
            {choice}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A choice among few words, all in sight. A second click on the chosen one means any. */
export function ChipFilter({ label, value = "", change, choices }: FieldProps & { readonly choices: readonly string[] }) {
  return (
    <fieldset class="filter">
      <legend class="visually-hidden">{label}</legend>
      <div class="chips">
        {choices.map((choice) => (
          <button key={choice} type="button" aria-pressed={choice === value} onClick={() => change(choice === value ? "" : choice)}>
            <Status word={choice} />
          </button>
        ))}
      </div>
    </fieldset>
  );
}

const periods = { "1h": 3_600_000, "24h": 86_400_000, "7d": 604_800_000, "30d": 2_592_000_000 } as const;
export type Period = keyof typeof periods;

export function periodOf(text: string | undefined, otherwise: Period): Period {
  return text !== undefined && Object.hasOwn(periods, text) ? (text as Period) : otherwise;
}

/** Unix ms at which the period that ends now began. */
export const startOf = (period: Period): number => Date.now() - periods[period];

export function PeriodFilter({ value, change }: { value: Period; change(period: Period): void }) {
  return (
    <fieldset class="segments">
      <legend class="visually-hidden">Period</legend>
      {(Object.keys(periods) as Period[]).map((period) => (
        <button key={period} type="button" aria-pressed={period === value} onClick={() => change(period)}>
          {period.replace(/(\d+)/, "$1 ")}
        </button>
      ))}
    </fieldset>
  );
}
